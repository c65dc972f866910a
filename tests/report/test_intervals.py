from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from pilotlight.report.intervals import covered_before, merge, nested_in, overlap

PAIRS = st.lists(st.tuples(st.integers(0, 40), st.integers(0, 12)), max_size=25)


def arrays(pairs: list[tuple[int, int]]) -> tuple[np.ndarray, np.ndarray]:
    starts = np.array([start for start, _ in pairs], np.int64)
    return starts, starts + np.array([length for _, length in pairs], np.int64)


def points(pairs: list[tuple[int, int]]) -> set[int]:
    return {point for start, length in pairs for point in range(start, start + length)}


@given(PAIRS)
def test_merged_intervals_cover_the_same_points_and_are_apart(pairs: list[tuple[int, int]]) -> None:
    starts, ends = merge(*arrays(pairs))
    covered = {
        point
        for start, end in zip(starts.tolist(), ends.tolist(), strict=True)
        for point in range(start, end)
    }
    assert covered == points(pairs)
    assert all(starts[1:] > ends[:-1])
    assert int((ends - starts).sum()) == len(covered)


@given(PAIRS, st.lists(st.integers(-5, 60), max_size=10))
def test_covered_before_counts_points(pairs: list[tuple[int, int]], times: list[int]) -> None:
    merged = merge(*arrays(pairs))
    found = covered_before(merged, np.array(times, np.int64)).tolist()
    assert found == [sum(point < time for point in points(pairs)) for time in times]


@given(PAIRS, PAIRS)
def test_overlap_counts_common_points(
    pairs: list[tuple[int, int]], asked: list[tuple[int, int]]
) -> None:
    found = overlap(merge(*arrays(pairs)), *arrays(asked)).tolist()
    assert found == [len(points(pairs) & points([one])) for one in asked]


def holder_by_definition(
    lanes: list[int], starts: list[int], ends: list[int], row: int
) -> set[tuple[int, int]]:
    """The intervals of the lane that hold the row, by the smallest length."""
    holders = []
    for other in range(len(starts)):
        if other == row or lanes[other] != lanes[row]:
            continue
        holds = starts[other] <= starts[row] and ends[other] >= ends[row]
        same = (starts[other], ends[other]) == (starts[row], ends[row])
        if holds and (not same or other < row):
            holders.append((ends[other] - starts[other], starts[other], ends[other]))
    least = min((holder[0] for holder in holders), default=None)
    return {holder[1:] for holder in holders if holder[0] == least}


@given(st.lists(st.tuples(st.integers(0, 1), st.integers(0, 20), st.integers(0, 3)), max_size=20))
def test_nesting_in_well_nested_lanes_is_the_smallest_holder(
    choices: list[tuple[int, int, int]],
) -> None:
    """Intervals of a binary tree: any two of a lane nest or are apart."""
    lanes, starts, ends = [], [], []
    for lane, place, level in choices:
        size = 8 >> level
        begin = place % (16 // size) * size
        lanes.append(lane)
        starts.append(begin)
        ends.append(begin + size)
    parents = nested_in(np.array(lanes), np.array(starts, np.int64), np.array(ends, np.int64))
    for row, parent in enumerate(parents.tolist()):
        expected = holder_by_definition(lanes, starts, ends, row)
        if not expected:
            assert parent == -1
        else:
            assert (starts[parent], ends[parent]) in expected
            assert lanes[parent] == lanes[row]


@given(
    st.lists(
        st.tuples(st.integers(0, 2), st.integers(0, 30), st.integers(0, 15)),
        min_size=1,
        max_size=30,
    )
)
def test_a_holder_always_holds_and_nesting_never_circles(
    rows: list[tuple[int, int, int]],
) -> None:
    lanes = np.array([lane for lane, _, _ in rows])
    starts = np.array([start for _, start, _ in rows], np.int64)
    ends = starts + np.array([length for _, _, length in rows], np.int64)
    parents = nested_in(lanes, starts, ends).tolist()
    for row, parent in enumerate(parents):
        if parent >= 0:
            assert lanes[parent] == lanes[row]
            assert starts[parent] <= starts[row] and ends[parent] >= ends[row]
        seen = set()
        while row >= 0:
            assert row not in seen
            seen.add(row)
            row = parents[row]
