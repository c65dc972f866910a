"""The map of ranks and steps."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("chdb", reason="the page of a fleet needs pilotlight[server]")
from pilotlight.web.heat import lateness


def test_a_rank_whose_waiting_alone_is_known_is_not_said_to_be_in_time() -> None:
    nan = np.nan
    wait = np.array([[5.0, 5.0, nan], [1.0, nan, nan], [3.0, nan, nan]])
    late = lateness(wait)
    assert late[:, 0].tolist() == [0.0, 4.0, 2.0]
    assert np.isnan(late[:, 1:]).all()
