from __future__ import annotations

from statistics import median

from hypothesis import given
from hypothesis import strategies as st

from pilotlight.store.queries.representatives import representatives


def test_the_one_that_is_unlike_a_thousand_others_is_among_the_few() -> None:
    means = [1980.0 + n % 7 for n in range(1024)]
    means[517] = 1185.0
    chosen = representatives(means, 64)
    assert 517 in chosen and len(chosen) == 64
    assert median(means[i] for i in chosen) == median(means), "the rest stands for all"


def test_one_that_is_asked_for_is_there_even_if_it_is_like_all_others() -> None:
    assert 700 in representatives([float(n % 9) for n in range(1024)], 32, [700])


def test_few_are_all_there() -> None:
    assert representatives([3.0, 1.0, 2.0], 3) == [0, 1, 2]


@given(
    st.lists(st.floats(-1e9, 1e9), min_size=1, max_size=80),
    st.integers(1, 90),
    st.integers(0, 79),
)
def test_they_are_different_ones_and_as_many_as_asked(
    means: list[float], most: int, named: int
) -> None:
    always = [named] if named < len(means) else []
    chosen = representatives(means, most, always)
    assert len(set(chosen)) == len(chosen) == min(most, len(means))
    assert set(always) <= set(chosen) <= set(range(len(means)))
