from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pilotlight.overhead.interval import LEAST_PAIRS, Ratio, meaning, paired_ratio

times = st.floats(min_value=1e-6, max_value=1e6)


@given(st.lists(st.tuples(times, times), min_size=1, max_size=30))
def test_the_interval_holds_the_value(pairs: list[tuple[float, float]]) -> None:
    ratio = paired_ratio([a for a, _ in pairs], [b for _, b in pairs])
    assert ratio.low <= ratio.value <= ratio.high
    assert ratio.pairs == len(pairs)


@pytest.mark.parametrize("pairs", [LEAST_PAIRS, 9, 25])
def test_the_truth_is_inside_the_interval_as_often_as_stated(pairs: int) -> None:
    chance = random.Random(5)
    inside = 0
    for _ in range(2000):
        off = [chance.gauss(1.0, 0.03) for _ in range(pairs)]
        on = [1.02 * chance.gauss(1.0, 0.03) for _ in range(pairs)]
        ratio = paired_ratio(on, off)
        inside += ratio.low <= 1.02 <= ratio.high
    # 95 % of 2,000 and three standard deviations of chance.
    assert inside >= 1900 - 30


@given(st.integers(min_value=1, max_value=5000))
def test_the_interval_of_many_pairs_is_narrow_and_symmetric(pairs: int) -> None:
    ratio = paired_ratio([float(number) for number in range(1, pairs + 1)], [1.0] * pairs)
    assert ratio.low + ratio.high == pairs + 1
    assert ratio.high - ratio.low <= 2 * pairs**0.5 + 5


@pytest.mark.parametrize(
    ("low", "high", "pairs", "words"),
    [
        (1.01, 1.03, 20, "costs 1 to 3 %"),
        (0.99, 1.004, 20, "nothing that can be measured, at most 0.4 %"),
        (0.97, 0.999, 20, "nothing that can be measured, at most 0 %"),
        (0.9, 1.2, 20, "noise hides"),
        (1.01, 1.03, 3, "too few"),
    ],
)
def test_the_interval_is_put_in_words(low: float, high: float, pairs: int, words: str) -> None:
    assert words in meaning(Ratio((low + high) / 2, low, high, pairs), "time of a step")


def test_one_disturbed_window_does_not_move_the_value() -> None:
    on = [1.01] * 20 + [9.0]
    assert paired_ratio(on, [1.0] * 21).value == pytest.approx(1.01)


def test_nothing_measured_is_an_error() -> None:
    with pytest.raises(ValueError, match="no pair"):
        paired_ratio([], [])
