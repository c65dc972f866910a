from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pilotlight.report.quantiles import (
    bucket_middle_ns,
    bucket_of,
    histogram_quantile,
    quantile,
)

DURATIONS = st.one_of(
    st.integers(0, 2**60),
    st.integers(0, 60).map(lambda power: 2**power),
    st.integers(1, 60).map(lambda power: 2**power - 1),
)


def bucket_by_definition(duration_ns: int) -> int:
    if duration_ns < 8:
        return duration_ns
    exponent = duration_ns.bit_length() - 1
    return 8 * (exponent - 2) + ((duration_ns >> (exponent - 3)) & 7)


@given(st.lists(DURATIONS, max_size=30))
def test_buckets_are_those_of_the_format(durations: list[int]) -> None:
    found = bucket_of(np.array(durations, np.int64)).tolist()
    assert found == [bucket_by_definition(duration) for duration in durations]


@given(DURATIONS)
def test_the_middle_of_a_bucket_is_in_it_and_near(duration_ns: int) -> None:
    middle = bucket_middle_ns(bucket_by_definition(duration_ns))
    assert bucket_by_definition(middle) == bucket_by_definition(duration_ns)
    assert abs(middle - duration_ns) <= duration_ns * 0.0625


@given(st.lists(st.integers(0, 1000), min_size=1), st.floats(0.01, 1))
def test_a_quantile_leaves_at_most_the_rest_above(values: list[int], share: float) -> None:
    found = quantile(np.sort(np.array(values)), share)
    assert found in values
    assert sum(value <= found for value in values) >= share * len(values) - 1e-9
    assert sum(value < found for value in values) < share * len(values) + 1e-9


@given(st.lists(st.integers(0, 10**9), min_size=1), st.sampled_from([0.5, 0.95]))
def test_a_histogram_gives_the_quantile_within_a_bucket(values: list[int], share: float) -> None:
    exact = quantile(np.sort(np.array(values)), share)
    buckets, counts = np.unique(bucket_of(np.array(values)), return_counts=True)
    assert histogram_quantile(buckets, counts, share) == pytest.approx(exact, rel=0.0625)


def test_nothing_has_quantile_zero() -> None:
    nothing = np.empty(0, np.int64)
    assert quantile(nothing, 0.5) == histogram_quantile(nothing, nothing, 0.5) == 0
