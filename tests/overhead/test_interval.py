from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pilotlight.overhead.interval import paired_ratio

times = st.floats(min_value=1e-6, max_value=1e6)


@given(st.lists(st.tuples(times, times), min_size=1, max_size=30))
def test_the_interval_holds_the_value(pairs: list[tuple[float, float]]) -> None:
    ratio = paired_ratio([a for a, _ in pairs], [b for _, b in pairs])
    assert ratio.low <= ratio.value <= ratio.high
    assert ratio.pairs == len(pairs)


def test_the_truth_is_inside_the_interval_about_as_often_as_stated() -> None:
    chance = random.Random(5)
    inside = 0
    for turn in range(60):
        off = [chance.gauss(1.0, 0.03) for _ in range(25)]
        on = [1.02 * chance.gauss(1.0, 0.03) for _ in range(25)]
        ratio = paired_ratio(on, off, seed=turn)
        inside += ratio.low <= 1.02 <= ratio.high
    assert inside >= 50


def test_one_disturbed_window_does_not_move_the_value() -> None:
    on = [1.01] * 20 + [9.0]
    assert paired_ratio(on, [1.0] * 21).value == pytest.approx(1.01)


def test_nothing_measured_is_an_error() -> None:
    with pytest.raises(ValueError, match="no pair"):
        paired_ratio([], [])
