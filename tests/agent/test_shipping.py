"""When an agent sends a batch."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from pilotlight.agent.shipping import Shipping
from pilotlight.ship.target import Target


def test_ticks_that_are_a_little_early_or_late_do_not_put_off_batches(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sealed: list[int] = []
    target = Target("http://127.0.0.1:9", tmp_path)
    shipping = Shipping(target, "node", 0)
    monkeypatch.setattr("pilotlight.agent.checkup.Checkup.tick", lambda self, now_ns: None)
    monkeypatch.setattr(shipping, "_seal", lambda jobs, clock, governor, now: sealed.append(now))
    job: Any = object()
    clock: Any = None
    for tick in range(1, 103):
        shipping.tick([job], clock, clock, tick * 990_000_000)
    shipping.sender.stop(0)
    shipping.requests.stop()
    assert len(sealed) == int(100 / target.batch_s)
