from __future__ import annotations

import pytest

pytest.importorskip("starlette", reason="the page needs pilotlight[server]")
from pilotlight.web.events import longest, stretches

S = 1_000_000_000


def test_windows_close_to_each_other_are_one_event() -> None:
    assert stretches([(0, 5), (10 * S, 7), (50 * S, 1), (100 * S, 2)]) == [(0, 13), (100 * S, 2)]
    assert stretches([]) == []


def test_of_too_many_events_the_longest_are_kept() -> None:
    many = [(100 * S * number, number) for number in range(500)]
    assert [spent for _, spent in longest(many)] == list(range(499, 399, -1))
