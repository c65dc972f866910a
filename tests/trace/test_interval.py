from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from pilotlight.trace.interval import Intervals, union

LAST = 40
pairs = st.lists(st.tuples(st.integers(0, LAST), st.integers(0, LAST)), max_size=12)


def make(rows: list[tuple[int, int]]) -> tuple[Intervals, set[int]]:
    columns = np.array(rows, np.int64).reshape(-1, 2)
    points = {t for start, end in rows for t in range(start, end)}
    return union(columns[:, 0], columns[:, 1]), points


def points_of(intervals: Intervals) -> set[int]:
    return {
        t
        for start, end in zip(intervals.start_ns, intervals.end_ns, strict=True)
        for t in range(start, end)
    }


@given(pairs)
def test_a_union_is_sorted_disjoint_and_covers_the_same(rows: list[tuple[int, int]]) -> None:
    found, points = make(rows)
    assert points_of(found) == points
    assert found.total_ns() == len(points)
    assert (found.start_ns < found.end_ns).all()
    assert (found.end_ns[:-1] < found.start_ns[1:]).all()


@given(pairs, pairs)
def test_set_operations_agree_with_sets_of_points(
    first: list[tuple[int, int]], second: list[tuple[int, int]]
) -> None:
    a, a_points = make(first)
    b, b_points = make(second)
    assert points_of(a & b) == a_points & b_points
    assert points_of(a | b) == a_points | b_points
    assert points_of(a - b) == a_points - b_points


@given(pairs, st.integers(-5, LAST + 5), st.integers(0, LAST))
def test_the_length_within_a_window_counts_its_points(
    rows: list[tuple[int, int]], start: int, length: int
) -> None:
    found, points = make(rows)
    inside = found.within_ns(np.array([start]), np.array([start + length]))
    assert inside[0] == len(points & set(range(start, start + length)))
