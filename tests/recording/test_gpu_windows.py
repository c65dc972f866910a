from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pilotlight.recording.columns import Columns
from pilotlight.recording.gpu_windows import GpuWindows, Kept, weights

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
    total = weights(windows, activities, none).sum()
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
    assert weights(windows, some, none, lost).sum() == pytest.approx(launched, rel=0.02)


def test_lost_records_count_where_every_launch_was_heard() -> None:
    windows, activities, launched = storm(0)
    heard_always = GpuWindows(0, windows.start_ns, np.tile([1, 0], 10), windows.end_ns)
    some = activities.where(np.arange(activities.rows) % 1000 < 700)
    launches = Columns(launched, {"kind": np.ones(launched, np.uint8)}, {})
    lost = Kept(some.rows, activities.rows - some.rows)
    assert weights(heard_always, some, launches, lost).sum() == pytest.approx(launched)


@given(st.integers(0, 9 * _MS))
def test_no_activity_ever_stands_for_less_than_itself(late_mark_ns: int) -> None:
    windows, activities, _ = storm(late_mark_ns)
    none = activities.where(np.zeros(activities.rows, bool))
    assert (weights(windows, activities, none) >= 1).all()
