"""For how much a record of the GPU stands by the numbers of calls, where launches are not heard.

The numbers go on where nobody listens. A busy program does more calls between the windows than in
them, for there it is not slowed down: so they count better than the clock does.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from pilotlight.recording.columns import Array, Columns
from pilotlight.recording.gpu_cells import Cells, counted
from pilotlight.recording.gpu_windows import GpuWindows, Timed

_LEAST_WINDOWS = 4
_OTHER_PACE = 1.5
# Of what empty windows would have had: if that many were lost, they say nothing.
_LOST_RATIO = 0.5
# A jump in the numbers of calls this much above the usual one is more than calls without a record.
_LOST_AT_ONCE = 50
# How many calls for one that the time tells of there may be; beyond it the numbers do not go on.
_LEAST_OF_TIME, _MOST_OF_TIME = 0.25, 20


def by_calls(windows: GpuWindows, activities: Columns, lost: int) -> Array | None:
    """The weight of each record: that of its window, and all together as many as there were calls.
    None: the numbers do not tell (that those of a real CUPTI go on is not confirmed)."""
    numbers = activities["correlation"].astype(np.int64)
    order = np.argsort(numbers, kind="stable")
    order = order[numbers[order] > 0]
    cells = Cells.of(windows, Timed.OTHERS)
    if cells.begins_ns.size < _LEAST_WINDOWS or order.size < cells.begins_ns.size:
        return None
    numbers, starts_ns = numbers[order], activities["start_ns"][order].astype(np.int64)
    cells = _shown(cells, numbers, starts_ns, lost)
    gaps = cells.begins_ns.size - 1
    # The calls between windows are a jump in the numbers. Times do not tell as well which record
    # belongs to which window: the mark of one may be written long after it began.
    jumps = np.maximum(np.diff(numbers) - 1, 0)
    edges = np.sort(np.argsort(jumps, kind="stable")[-gaps:])
    first, last = np.append(0, edges + 1), np.append(edges, numbers.size - 1)
    window = cells.place(starts_ns[last])
    cells = cells.begun_by(window, starts_ns[first])
    inside = numbers[last] - numbers[first] + 1 - _lost_in_windows(jumps, edges, lost)
    calls_in = np.bincount(window, inside, cells.begins_ns.size)
    calls_between = np.diff(numbers)[edges] - 1
    cells = _parted(cells, calls_in, window[:-1], window[1:], calls_between)
    of_each = cells.shares[window]
    rest = window >= int(cells.from_start)
    runs = _Runs(first[rest], last[rest], window[rest])
    calls = _calls(cells, windows, numbers, starts_ns, runs)
    told = float((of_each * inside)[rest].sum())
    if told <= 0 or not _LEAST_OF_TIME <= calls / told <= _MOST_OF_TIME:
        return None
    lengths_ns = cells.lengths_ns[window[rest]]
    of_each[rest] = counted(of_each[rest], inside[rest], lengths_ns, calls)
    result: Array = np.full(activities.rows, calls / max(float(inside[rest].sum()), 1.0))
    result[order] = np.repeat(np.maximum(of_each, 1.0), last - first + 1)
    return result


@dataclass(frozen=True)
class _Runs:
    """Of numbers without a gap between windows: rows of the first and last, and their window."""

    first: Array
    last: Array
    window: Array


def _calls(
    cells: Cells, windows: GpuWindows, numbers: Array, starts_ns: Array, runs: _Runs
) -> float:
    """How many there were behind the window in which the program starts, by the runs of numbers
    since: before the first and behind the last of them as many as beside it, to the middle of the
    gap to the next window, which shows that there were none any more."""
    first, last = runs.first, runs.last
    if not first.size:
        return 0.0
    # Of a shorter time too little is known.
    least_ns = windows.watched_ns / cells.begins_ns.size
    begin_ns = float(cells.ends_ns[0] if cells.from_start else windows.start_ns[0])
    if runs.window[0] > int(cells.from_start):
        begin_ns = float(cells.middles_ns[runs.window[0] - 1])
    before_ns = max(float(starts_ns[first[0]]) - begin_ns, 0.0)
    before = before_ns * _pace(numbers[first], starts_ns[first], max(before_ns, least_ns))
    if cells.from_start and first[0] > 0:
        before = float(numbers[first[0]] - numbers[first[0] - 1] - 1)
    is_last = runs.window[-1] == cells.begins_ns.size - 1
    end_ns = float(windows.end_ns if is_last else cells.middles_ns[runs.window[-1]])
    behind_ns = max(end_ns - float(starts_ns[last[-1]]), 0.0)
    numbers_back, starts_back = -numbers[last[::-1]], -starts_ns[last[::-1]]
    behind = behind_ns * _pace(numbers_back, starts_back, max(behind_ns, least_ns))
    return before + float(numbers[last[-1]] - numbers[first[0]] + 1) + behind


def _parted(
    cells: Cells, calls_in: Array, before: Array, after: Array, calls_between: Array
) -> Cells:
    """Where calls come at quite another pace after a gap, their number in it says when that began:
    the gap is long where it is the faster one, whose records cost more."""
    rates = calls_in / np.maximum(cells.lengths_ns, 1)
    slower, faster = (
        np.minimum(rates[before], rates[after]),
        np.maximum(rates[before], rates[after]),
    )
    gaps_ns = (cells.begins_ns[after] - cells.ends_ns[before]).astype(float)
    told = (after == before + 1) & (gaps_ns > 0) & (faster > _OTHER_PACE * slower)
    before, after, gaps_ns = before[told], after[told], gaps_ns[told]
    pace = calls_between[told] / gaps_ns
    of_after = np.clip((pace - rates[before]) / (rates[after] - rates[before]), 0.0, 1.0)
    middles_ns = cells.middles_ns
    middles_ns[before] = cells.ends_ns[before] + (1 - of_after) * gaps_ns
    return cells.parted_at(middles_ns)


def _shown(cells: Cells, numbers: Array, starts_ns: Array, lost: int) -> Cells:
    """Those that have records; the others too, unless all that they had may have been lost."""
    has_any = np.zeros(cells.begins_ns.size, bool)
    has_any[cells.place(starts_ns)] = True
    pace = _pace(numbers, starts_ns, float(starts_ns[-1] - starts_ns[0]))
    expected = pace * float(cells.lengths_ns[~has_any].sum())
    were_lost = 0 < expected * _LOST_RATIO <= lost
    return cells.only(has_any) if were_lost else cells


def _pace(numbers: Array, times_ns: Array, least_ns: float) -> float:
    """How many there were a nanosecond, in that time at least from the first of these on."""
    place = min(int(np.searchsorted(times_ns, times_ns[0] + least_ns)), times_ns.size - 1)
    return float(numbers[place] - numbers[0]) / max(float(times_ns[place] - times_ns[0]), 1.0)


def _lost_in_windows(jumps: Array, edges: Array, lost: int) -> Array:
    """Of the jumps within each window, those that are lost records: whole buffers of them.

    What was lost at the end of a window is part of the jump to the next one.
    """
    within = jumps.astype(np.float64)
    within[edges] = 0
    usual = max(float(np.median(np.delete(jumps, edges))) if jumps.size > edges.size else 1, 1)
    within[within <= _LOST_AT_ONCE * usual] = 0
    if not within.any() or lost <= 0:
        return np.zeros(edges.size + 1)
    of_each = np.add.reduceat(np.append(within, 0), np.append(0, edges + 1))
    result: Array = of_each * min(1.0, lost / float(of_each.sum()))
    return result
