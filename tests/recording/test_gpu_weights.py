from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pilotlight.recording.columns import Array, Columns
from pilotlight.recording.gpu_weights import Kept, weights
from pilotlight.recording.gpu_windows import GpuWindows
from pilotlight.recording.schema import ActivityKind

_MS = 1_000_000


def storm(late_mark_ns: int) -> tuple[GpuWindows, Columns, int]:
    """Ten cycles of 10 ms with records and 990 ms with nothing, a launch each 10 µs; its count.

    The marks are written that long after records were switched on.
    """
    starts = np.arange(10) * 1000 * _MS
    marks = np.sort(np.concatenate([starts + late_mark_ns, starts + 10 * _MS]))
    windows = GpuWindows(0, marks, np.tile([1, -1], 10), int(starts[-1] + 1000 * _MS))
    times = (starts[:, None] + np.arange(1000) * 10_000).ravel()
    rows = {
        "kind": np.ones(times.size, np.uint8),
        "detail": np.zeros(times.size, np.uint64),
        "correlation": (times // 10_000 + 1).astype(np.uint64),
        "start_ns": times,
    }
    return windows, Columns(times.size, rows, {}), 10 * 100_000


@pytest.mark.parametrize("late_mark_ns", [0, _MS, 6 * _MS])
def test_totals_are_right_also_where_a_mark_was_written_late(late_mark_ns: int) -> None:
    windows, activities, launched = storm(late_mark_ns)
    none = activities.where(np.zeros(activities.rows, bool))
    total = weights(windows, activities, none).values.sum()
    assert total == pytest.approx(launched, rel=0.02)


@pytest.mark.parametrize("place", ["end", "middle"])
def test_records_lost_by_the_buffer_are_not_counted_twice(place: str) -> None:
    windows, activities, launched = storm(0)
    in_window = np.arange(activities.rows) % 1000
    first = 700 if place == "end" else 300
    kept = (in_window < first) | (in_window >= first + 300)
    some = activities.where(kept)
    none = activities.where(np.zeros(activities.rows, bool))
    lost = Kept(some.rows, activities.rows - some.rows)
    assert weights(windows, some, none, lost).values.sum() == pytest.approx(launched, rel=0.02)


def test_lost_records_count_where_every_launch_was_heard() -> None:
    windows, activities, launched = storm(0)
    heard_always = GpuWindows(0, windows.start_ns, np.tile([1, 0], 10), windows.end_ns)
    some = activities.where(np.arange(activities.rows) % 1000 < 700)
    rows = {
        "kind": np.ones(launched, np.uint8),
        "correlation": np.arange(launched, dtype=np.uint64) + 1,
        "start_ns": np.arange(launched) * 10_000,
    }
    launches = Columns(launched, rows, {})
    lost = Kept(some.rows, activities.rows - some.rows)
    assert weights(heard_always, some, launches, lost).values.sum() == pytest.approx(launched)


def heard_job(launched_ns: Array) -> tuple[GpuWindows, Columns, Columns]:
    """A launch of a kernel at each time, all heard; 10 s with a tenth of the time recorded, then
    10 s with nine tenths."""
    lengths = np.concatenate([np.tile([100, 900], 10), np.tile([900, 100], 10)]) * _MS
    starts = np.append(0, np.cumsum(lengths)[:-1])
    windows = GpuWindows(0, starts, np.tile([1, 0], 20), int(lengths.sum()))
    rows = {
        "kind": np.full(launched_ns.size, ActivityKind.KERNEL),
        "detail": np.zeros(launched_ns.size, np.uint64),
        "correlation": np.arange(launched_ns.size, dtype=np.uint64) + 1,
        "start_ns": launched_ns,
    }
    launches = Columns(launched_ns.size, rows, {})
    return windows, launches.where(windows.has_records(launched_ns)), launches


def test_early_work_is_not_taken_for_less_because_more_was_recorded_later() -> None:
    launched_ns = np.arange(20_000) * _MS
    windows, activities, launches = heard_job(launched_ns)
    of_each = weights(windows, activities, launches).values
    assert of_each.sum() == pytest.approx(20_000)
    is_early = activities["start_ns"] < 10_000 * _MS
    assert of_each[is_early].sum() == pytest.approx(10_000, rel=0.06)


def test_what_only_the_start_of_a_program_does_stands_for_itself() -> None:
    windows, activities, launches = heard_job(np.arange(20_000) * _MS)
    of_each = weights(windows, activities, launches).values
    assert of_each[activities["start_ns"] < 100 * _MS] == pytest.approx(1)


def test_a_window_that_was_cut_short_does_not_stand_for_a_second_by_a_few_records() -> None:
    launched_ns = np.arange(20_000) * _MS
    windows, _, launches = heard_job(launched_ns)
    starts, values = windows.start_ns.copy(), windows.values.copy()
    starts[7] = starts[6] + 2 * _MS  # the fourth one
    cut = GpuWindows(0, starts, values, windows.end_ns)
    activities = launches.where(cut.has_records(launched_ns))
    of_each = weights(cut, activities, launches).values
    assert of_each.sum() == pytest.approx(20_000)
    assert of_each.max() < 20


def test_where_the_marks_of_windows_were_lost_launches_count() -> None:
    windows, activities, launches = heard_job(np.arange(20_000) * _MS)
    unmarked = GpuWindows(0, windows.start_ns[:1], np.array([0]), windows.end_ns)
    assert weights(unmarked, activities, launches).values.sum() == pytest.approx(20_000)


def test_work_that_runs_long_after_its_launch_counts_where_it_was_launched() -> None:
    windows, activities, launches = heard_job(np.arange(20_000) * _MS)
    late = {**activities.arrays, "start_ns": activities["start_ns"] + 700 * _MS}
    of_each = weights(windows, Columns(activities.rows, late, {}), launches).values
    assert of_each == pytest.approx(weights(windows, activities, launches).values)


def graphs(launched_ns: Array) -> tuple[GpuWindows, Columns, Columns]:
    """Of 8 s the sixth shows nodes, one a graph, the others graphs as a whole; all are heard."""
    values = np.array([1, 1, 1, 1, 1, 2, 1, 1])
    windows = GpuWindows(0, np.arange(8) * 1000 * _MS, values, 8000 * _MS)
    is_node = windows.has_nodes(launched_ns)
    rows = {
        "kind": np.where(is_node, ActivityKind.KERNEL, ActivityKind.GRAPH).astype(np.uint8),
        "detail": np.ones(launched_ns.size, np.uint64),
        "correlation": np.arange(launched_ns.size, dtype=np.uint64) + 1,
        "start_ns": launched_ns,
    }
    heard = {
        "kind": np.full(launched_ns.size, ActivityKind.GRAPH),
        "correlation": rows["correlation"],
        "start_ns": launched_ns,
    }
    return windows, Columns(launched_ns.size, rows, {}), Columns(launched_ns.size, heard, {})


def test_graphs_are_counted_by_their_launches_however_unsteady_these_are() -> None:
    # Most of them in the second that shows nodes.
    launched_ns = np.concatenate([np.arange(100) * 80, 5000 + np.arange(300)]) * _MS
    windows, activities, launches = graphs(launched_ns)
    of_each = weights(windows, activities, launches).values
    is_graph = activities["kind"] == ActivityKind.GRAPH
    assert of_each[is_graph].sum() == pytest.approx(400)
    assert of_each[~is_graph].sum() == pytest.approx(400)


def test_without_launches_the_share_of_time_counts_for_graphs() -> None:
    windows, activities, launches = graphs(np.arange(800) * 10 * _MS)
    none = launches.where(np.zeros(launches.rows, bool))
    of_each = weights(windows, activities, none).values
    is_graph = activities["kind"] == ActivityKind.GRAPH
    assert of_each[is_graph].sum() == pytest.approx(800)
    assert of_each[~is_graph].sum() == pytest.approx(800)


@given(st.integers(0, 9 * _MS))
def test_no_activity_ever_stands_for_less_than_itself(late_mark_ns: int) -> None:
    windows, activities, _ = storm(late_mark_ns)
    none = activities.where(np.zeros(activities.rows, bool))
    assert (weights(windows, activities, none).values >= 1).all()
