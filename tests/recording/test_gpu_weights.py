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


def unheard_job(late_mark_ns: int = 0) -> tuple[GpuWindows, Columns]:
    """A launch every 10 µs, of which none are heard after the first second. 100 ms are recorded at
    once, then 1 % of 10 s, then a fifth of 10 s."""
    on = np.concatenate([[100], np.full(10, 10), np.full(10, 200)]) * _MS
    begins = np.arange(21) * 1000 * _MS
    marks = np.column_stack([begins + np.minimum(late_mark_ns, on // 2), begins + on]).ravel()
    values = np.tile([1, -1], 21)
    values[1] = 0
    windows = GpuWindows(0, marks, values, 21_000 * _MS)
    numbers = np.arange(2_100_000)
    seen = (numbers * 10_000) % (1000 * _MS) < on[numbers // 100_000]
    rows = {
        "kind": np.ones(int(seen.sum()), np.uint8),
        "detail": np.zeros(int(seen.sum()), np.uint64),
        "correlation": (numbers[seen] + 1).astype(np.uint64),
        "start_ns": numbers[seen] * 10_000,
    }
    return windows, Columns(int(seen.sum()), rows, {})


@pytest.mark.parametrize("late_mark_ns", [0, 4 * _MS])
def test_early_work_counts_as_much_as_later_work_where_launches_are_not_heard(
    late_mark_ns: int,
) -> None:
    windows, activities = unheard_job(late_mark_ns)
    none = activities.where(np.zeros(activities.rows, bool))
    of_each = weights(windows, activities, none).values
    assert of_each.sum() == pytest.approx(2_100_000, rel=0.001)
    start_ns = activities["start_ns"]
    is_early = (start_ns >= 1000 * _MS) & (start_ns < 11_000 * _MS)
    # Half of the gaps beside them is their neighbours'.
    assert of_each[is_early].sum() == pytest.approx(1_000_000, rel=0.1)
    assert of_each[start_ns < 100 * _MS] == pytest.approx(1)


def test_early_work_counts_as_much_where_nothing_but_the_time_is_known() -> None:
    windows, activities = unheard_job()
    unnumbered = {**activities.arrays, "correlation": np.zeros(activities.rows, np.uint64)}
    activities = Columns(activities.rows, unnumbered, {})
    none = activities.where(np.zeros(activities.rows, bool))
    of_each = weights(windows, activities, none).values
    assert of_each.sum() == pytest.approx(2_100_000, rel=0.001)
    is_early = activities["start_ns"] < 11_000 * _MS
    assert of_each[is_early].sum() == pytest.approx(1_100_000, rel=0.1)


def test_work_of_slow_times_is_not_taken_for_more_because_calls_are_many_beside_it() -> None:
    """By turns 3 s with a call every 10 µs and 3 s with one every 100 µs; 5 % are recorded."""
    marks = np.column_stack([np.arange(60) * 1000 + 400, np.arange(60) * 1000 + 450]).ravel() * _MS
    windows = GpuWindows(0, np.append(0, marks), np.append(-1, np.tile([1, -1], 60)), 60_000 * _MS)
    times = np.arange(6_000_000) * 10_000
    is_slow = times // (3000 * _MS) % 2 == 1
    called = ~is_slow | (np.arange(times.size) % 10 == 0)
    times, is_slow = times[called], is_slow[called]
    seen = windows.has_records(times)
    rows = {
        "kind": np.ones(int(seen.sum()), np.uint8),
        "detail": np.zeros(int(seen.sum()), np.uint64),
        "correlation": (np.flatnonzero(seen) + 1).astype(np.uint64),
        "start_ns": times[seen],
    }
    activities = Columns(int(seen.sum()), rows, {})
    of_each = weights(windows, activities, activities.where(np.zeros(activities.rows, bool))).values
    assert of_each[is_slow[seen]].sum() == pytest.approx(int(is_slow.sum()), rel=0.05)


def test_graphs_that_are_timed_between_windows_do_not_hide_where_these_are() -> None:
    windows, activities = unheard_job()
    graphs = np.arange(0, 2_100_000, 1_000)
    rows = {
        "kind": np.full(graphs.size, ActivityKind.GRAPH, np.uint8),
        "detail": np.ones(graphs.size, np.uint64),
        "correlation": (graphs + 1).astype(np.uint64),
        "start_ns": graphs * 10_000,
    }
    both = {name: np.append(activities[name], rows[name]) for name in rows}
    together = Columns(activities.rows + graphs.size, both, {})
    none = together.where(np.zeros(together.rows, bool))
    of_each = weights(windows, together, none).values
    assert of_each[: activities.rows].sum() == pytest.approx(2_100_000, rel=0.001)
    assert of_each[activities.rows :] == pytest.approx(1)


@pytest.mark.parametrize("tail", [2, 30])
def test_a_few_records_behind_a_loss_do_not_stand_for_half_a_gap(tail: int) -> None:
    windows, activities = unheard_job()
    in_window = activities["start_ns"] % (1000 * _MS) // 10_000
    # Of the last window a whole buffer of records is missing, but for the very last ones.
    is_last = activities["start_ns"] >= 20_000 * _MS
    kept = activities.where(~is_last | (in_window < 15_000) | (in_window >= 20_000 - tail))
    none = kept.where(np.zeros(kept.rows, bool))
    lost = Kept(kept.rows, activities.rows - kept.rows)
    of_each = weights(windows, kept, none, lost).values
    assert of_each.sum() == pytest.approx(2_100_000, rel=0.02)
    assert of_each[-tail:].sum() < 0.05 * 100_000


def test_a_window_without_any_record_leaves_its_time_to_its_neighbours() -> None:
    windows, activities = unheard_job()
    second = activities["start_ns"] // (1000 * _MS)
    kept = activities.where(second != 15)
    none = kept.where(np.zeros(kept.rows, bool))
    of_each = weights(windows, kept, none).values
    assert of_each.sum() == pytest.approx(2_100_000, rel=0.02)
    assert of_each.max() < 150  # in a window of 1 % a record stands for a hundred


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


def unheard_phases(*phases: tuple[float, int]) -> tuple[GpuWindows, Columns, int]:
    """Seconds and calls a second, one after the other; a tenth of each second is recorded, the
    first one apart. And how many calls there were."""
    ends_s = np.cumsum([seconds for seconds, _ in phases])
    times = np.concatenate(
        [
            end - seconds + (np.arange(int(seconds * rate)) + 0.5) / max(rate, 1)
            for end, (seconds, rate) in zip(ends_s, phases, strict=True)
        ]
    )
    times = (times * 1e9).astype(np.int64)
    seconds = int(ends_s[-1])
    marks = (np.arange(seconds)[:, None] * 1000 + np.array([0, 100])).ravel() * _MS
    windows = GpuWindows(0, marks, np.tile([1, -1], seconds), seconds * 1000 * _MS)
    seen = windows.has_records(times)
    rows = {
        "kind": np.ones(int(seen.sum()), np.uint8),
        "detail": np.zeros(int(seen.sum()), np.uint64),
        "correlation": (np.flatnonzero(seen) + 1).astype(np.uint64),
        "start_ns": times[seen],
    }
    return windows, Columns(int(seen.sum()), rows, {}), times.size


@pytest.mark.parametrize(
    "phases",
    [
        ((10.5, 10_000), (20, 0)),
        ((20, 0), (10, 10_000)),
        ((16, 1_000), (3, 20_000)),
        ((3, 20_000), (16, 1_000)),
    ],
    ids=["idle at the end", "idle at first", "more at the end", "more at first"],
)
def test_before_the_first_and_behind_the_last_record_there_were_as_many_calls_as_beside_it(
    phases: tuple[tuple[float, int], ...],
) -> None:
    windows, activities, calls = unheard_phases(*phases)
    of_each = weights(windows, activities, activities.where(np.zeros(activities.rows, bool))).values
    assert of_each.sum() == pytest.approx(calls, rel=0.05)


@pytest.mark.parametrize("is_heard", [False, True])
def test_slow_work_is_not_taken_for_less_because_a_storm_had_more_windows_than_time(
    is_heard: bool,
) -> None:
    windows, activities, calls = unheard_phases((15, 1_000), (1.5, 100_000), (15, 1_000))
    none = activities.where(np.zeros(activities.rows, bool))
    launches = none
    if is_heard:
        windows = GpuWindows(0, windows.start_ns, np.maximum(windows.values, 0), windows.end_ns)
        slow = np.arange(15_000) * _MS
        storm = 15_000 * _MS + np.arange(150_000) * 10_000
        times = np.concatenate([slow, storm, 16_500 * _MS + slow])
        rows = {
            "kind": np.ones(calls, np.uint8),
            "correlation": np.arange(calls, dtype=np.uint64) + 1,
            "start_ns": times,
        }
        launches = Columns(calls, rows, {})
    of_each = weights(windows, activities, launches).values
    assert of_each.sum() == pytest.approx(calls, rel=0.02)
    start_ns = activities["start_ns"]
    is_slow = (start_ns < 15_000 * _MS) | (start_ns >= 16_500 * _MS)
    assert of_each[is_slow].sum() == pytest.approx(30_000, rel=0.04)


def test_windows_whose_records_were_lost_do_not_say_that_the_work_was_over() -> None:
    windows, activities, calls = unheard_phases((12, 10_000))
    kept = activities.where(activities["start_ns"] < 9_000 * _MS)
    none = kept.where(np.zeros(kept.rows, bool))
    told = weights(windows, kept, none, Kept(kept.rows, activities.rows - kept.rows))
    assert told.values.sum() == pytest.approx(calls, rel=0.05)
    # None were lost: it was idle.
    assert weights(windows, kept, none).values.sum() == pytest.approx(0.75 * calls, rel=0.05)


def test_a_gap_belongs_to_the_storm_that_filled_it() -> None:
    """It began right after a window of slow work, and had its first one late."""
    times = np.concatenate([np.arange(10_000) * _MS, 10_000 * _MS + np.arange(200_000) * 50_000])
    begins = np.concatenate([np.arange(10) * 1000 + 899, np.arange(9) * 1000 + 11_900]) * _MS
    marks = np.column_stack([begins, begins + 100 * _MS]).ravel()
    windows = GpuWindows(0, np.append(0, marks), np.append(-1, np.tile([1, -1], 19)), 20_000 * _MS)
    seen = windows.has_records(times)
    rows = {
        "kind": np.ones(int(seen.sum()), np.uint8),
        "detail": np.zeros(int(seen.sum()), np.uint64),
        "correlation": (np.flatnonzero(seen) + 1).astype(np.uint64),
        "start_ns": times[seen],
    }
    activities = Columns(int(seen.sum()), rows, {})
    of_each = weights(windows, activities, activities.where(np.zeros(activities.rows, bool))).values
    is_slow = activities["start_ns"] < 10_000 * _MS
    assert of_each[is_slow].sum() == pytest.approx(10_000, rel=0.02)
    assert of_each[~is_slow].sum() == pytest.approx(200_000, rel=0.02)
