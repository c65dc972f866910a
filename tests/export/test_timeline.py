from __future__ import annotations

from pathlib import Path

from example import Process, write_example
from hypothesis import given
from hypothesis import strategies as st

from pilotlight.export.timeline import (
    OVERLAPS_LIMIT,
    Slice,
    boundaries,
    nested_lanes,
    sampled_tracks,
)
from pilotlight.recording.recording import Recording

SLICES = st.lists(
    st.tuples(st.integers(0, 50), st.integers(0, 20)).map(
        lambda pair: Slice(pair[0], pair[0] + pair[1], "x")
    ),
    max_size=12,
)


@given(SLICES)
def test_in_a_lane_slices_nest_or_follow_and_none_is_lost(slices: list[Slice]) -> None:
    lanes = nested_lanes(slices)
    placed = [item for lane in lanes for item in lane]
    key = lambda item: (item.start_ns, item.end_ns)  # noqa: E731
    assert sorted(placed, key=key) == sorted(slices, key=key)
    for lane in lanes:
        for first, earlier in enumerate(lane):
            for later in lane[first + 1 :]:
                assert earlier.start_ns <= later.start_ns
                assert later.start_ns >= earlier.end_ns or later.end_ns <= earlier.end_ns


@given(SLICES)
def test_boundaries_are_balanced_and_in_order(slices: list[Slice]) -> None:
    for lane in nested_lanes(slices):
        depth, last, begun = 0, 0, 0
        for time_ns, name in boundaries(lane):
            assert time_ns >= last
            last = time_ns
            depth += 1 if name is not None else -1
            begun += name is not None
            assert depth >= 0
        assert (depth, begun) == (0, len(lane))


def test_too_many_overlaps_are_cut_and_not_left_out() -> None:
    slices = [Slice(start, 100 + start, "x") for start in range(OVERLAPS_LIMIT + 3)]
    lanes = nested_lanes(slices)
    assert len(lanes) == OVERLAPS_LIMIT
    assert sum(map(len, lanes)) == len(slices)


def test_what_stays_on_the_stack_is_one_slice(tmp_path: Path) -> None:
    process = Process(0)
    stacks = [("main", "a"), ("main", "a"), ("main", "b"), ("main",), ("other",)]
    for number, names in enumerate(stacks):
        process.add("samples", 7, process.stack(*names), 1, 0, 1_000 + 10 * number, 10)
    process.add("samples", 7, process.stack("other"), 1, 0, 2_000, 10)
    (track,) = sampled_tracks(Recording.open(write_example(tmp_path, process)))
    assert [(item.name, item.start_ns, item.end_ns) for item in track.slices] == [
        ("main", 990, 1030),
        ("a", 990, 1010),
        ("b", 1010, 1020),
        ("other", 1030, 1040),
        ("other", 1990, 2000),
    ]
