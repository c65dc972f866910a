"""When the GPU provider collected what (docs/gpu.md), and what a record therefore stands for."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

import numpy as np

from pilotlight.recording.columns import Array, Columns
from pilotlight.recording.recording import Recording
from pilotlight.recording.schema import ActivityKind, MarkKind

WINDOW_MARK = "gpu/window"
YIELD_MARK = "gpu/yielded"
MISSING_MARK = "gpu/missing: "
_ENDED, _LAUNCHES, _RECORDS, _NODES = -2, 0, 1, 2
# From here on the launches that were heard count the work better than the clock does.
_KNOWN_RATIO = 0.5
_LEAST_WINDOWS = 4
# A jump in the numbers of calls this much above the usual one is more than calls without a record.
_LOST_AT_ONCE = 50


# Each launch of these makes at least one record.
_ONE_RECORD = (ActivityKind.KERNEL, ActivityKind.MEMCPY, ActivityKind.MEMSET)


class Timed(Enum):
    """Work by the windows that show it."""

    GRAPHS = "graphs"  # as a whole
    NODES = "nodes"  # of graphs
    OTHERS = "others"


@dataclass(frozen=True)
class GpuWindows:
    """Of one process. `values` hold from their start to the next; the last to `end_ns`."""

    process: int
    start_ns: Array
    values: Array
    end_ns: int

    @property
    def has_ended(self) -> bool:
        """In order: what CUPTI still had was asked for."""
        return int(self.values[-1]) == _ENDED

    @property
    def lengths_ns(self) -> Array:
        return np.maximum(np.diff(np.append(self.start_ns, self.end_ns)), 0)

    @property
    def watched_ns(self) -> int:
        return int(self.lengths_ns.sum())

    def spent_ns(self, least: int) -> int:
        """How long at least this much was collected."""
        return int(self.lengths_ns[self.values >= least].sum())

    @property
    def records_ns(self) -> int:
        return self.spent_ns(_RECORDS)

    @property
    def coverage_ratio(self) -> float:
        return self.records_ns / self.watched_ns if self.watched_ns else 0.0

    @property
    def launches_ns(self) -> int:
        return self.spent_ns(_LAUNCHES)

    @property
    def nodes_ns(self) -> int:
        return self.spent_ns(_NODES)

    def has_records(self, times_ns: Array) -> Array:
        """Whether device records were on at each time."""
        return self._collects(times_ns, _RECORDS)

    def has_nodes(self, times_ns: Array) -> Array:
        """Whether the nodes of graphs were shown at each time."""
        return self._collects(times_ns, _NODES)

    def _collects(self, times_ns: Array, least: int) -> Array:
        place = np.searchsorted(self.start_ns, times_ns, side="right") - 1
        on: Array = (place >= 0) & (self.values[np.maximum(place, 0)] >= least)
        return on & (times_ns < self.end_ns)

    def place(self, times_ns: Array) -> Array:
        """In which of them each time lies; the first one for what was before."""
        before = np.searchsorted(self.start_ns, times_ns, side="right") - 1
        place: Array = np.maximum(before, 0)
        return place

    def timed(self, work: Timed) -> Array:
        """Which of them show that sort of work."""
        shown: Array = self.values >= (_NODES if work is Timed.NODES else _RECORDS)
        if work is Timed.GRAPHS:
            shown = (self.values < _NODES) & (self.values != _ENDED)
        return shown

    def on_intervals(self) -> tuple[Array, Array]:
        on = self.values >= _RECORDS
        return self.start_ns[on], (self.start_ns + self.lengths_ns)[on]


def gpu_windows(recording: Recording) -> tuple[GpuWindows, ...]:
    marks = _marks(recording, WINDOW_MARK)
    result = []
    for process in np.unique(marks["process"]).tolist():
        starts, values = _of_process(marks, process)
        end_ns = int(starts[-1])
        if int(values[-1]) != _ENDED:
            end_ns = max(_end_ns(recording, int(process)), end_ns)
        result.append(GpuWindows(int(process), starts, values, end_ns))
    return tuple(result)


def yielded_ns(recording: Recording, windows: GpuWindows) -> int:
    """For how long another tool had CUPTI in that process."""
    starts, values = _of_process(_marks(recording, YIELD_MARK), windows.process)
    lengths = np.diff(np.append(starts, max(windows.end_ns, int(starts[-1]) if starts.size else 0)))
    return int(lengths[values == 1].sum())


def taken_along(windows: GpuWindows, activities: Columns, launches: Columns) -> int:
    """Launches whose records a process that was ended took with it: the last ones, of which CUPTI
    had not handed any over."""
    if windows.has_ended:
        return 0
    work = np.isin(launches["kind"], _ONE_RECORD) & windows.has_records(launches["start_ns"])
    starts, numbers = launches["start_ns"][work], launches["correlation"][work]
    is_known = np.isin(numbers, activities["correlation"])
    last_known = starts[is_known].max() if is_known.any() else 0
    return int((~is_known & (starts > last_known)).sum())


def _marks(recording: Recording, name: str) -> Columns:
    marks = recording.detail("marks")
    marks = marks.where(marks["kind"] == MarkKind.MARK)
    found = recording.names.find(marks["process"], marks["name"])
    is_named = np.array([text == name for text in recording.names.texts], bool)
    return marks.where(is_named[found])


def _of_process(marks: Columns, process: int) -> tuple[Array, Array]:
    """Their times and values, in order."""
    mine = marks.where(marks["process"] == process)
    order = np.argsort(mine["time_ns"], kind="stable")
    return mine["time_ns"][order].astype(np.int64), mine["value"][order]


def _end_ns(recording: Recording, process: int) -> int:
    """When a process ended, or was last heard of."""
    for one in recording.processes:
        if one.start.process == process and one.end is not None:
            return one.end.time_ns
    latest = 0
    for table, column in (("launches", "start_ns"), ("counters", "time_ns")):
        rows = recording.detail(table)
        mine = rows[column][rows["process"] == process]
        latest = max(latest, int(mine.max()) if mine.size else 0)
    return latest


@dataclass(frozen=True)
class Kept:
    """How many device records a process wrote, and how many it knows it lost."""

    kept: int
    lost: int

    @property
    def factor(self) -> float:
        """For how many each stands because others were lost, which are taken to be alike."""
        return (self.kept + self.lost) / self.kept if self.kept > 0 else 1.0


NONE_LOST = Kept(0, 0)


@dataclass(frozen=True)
class Weights:
    """Of each activity. `is_counted`: by the number of launches, which is known, not by time."""

    values: Array
    is_counted: Array


def timed_as(activities: Columns) -> dict[Timed, Array]:
    """Which of these are of each sort."""
    is_graph: Array = activities["kind"] == ActivityKind.GRAPH
    is_node: Array = (activities["detail"] != 0) & ~is_graph
    return {Timed.GRAPHS: is_graph, Timed.NODES: is_node, Timed.OTHERS: ~is_graph & ~is_node}


def weights(
    windows: GpuWindows, activities: Columns, launches: Columns, records: Kept = NONE_LOST
) -> Weights:
    """For how many of its kind each activity stands, so that sums are unbiased; 1: for itself.

    Graphs are timed as a whole in all windows but those that show their nodes; nodes in those
    alone; everything else whenever device records are on. Where most launches were heard, their
    number counts instead of the share of time; what was lost is then among what is missing already.
    Of graphs, it does where launches were heard for longer than graphs were timed.
    """
    watched = windows.watched_ns
    sorts = timed_as(activities)
    is_graph, is_node = sorts[Timed.GRAPHS], sorts[Timed.NODES]
    is_counted = np.zeros(activities.rows, bool)
    by_time = _ratio(watched, windows.records_ns) * records.factor
    result: Array = np.full(activities.rows, by_time)
    if windows.launches_ns >= _KNOWN_RATIO * watched and launches.rows:
        for kind in np.unique(activities["kind"]).tolist():
            mine = (activities["kind"] == kind) & ~is_node
            heard = int((launches["kind"] == kind).sum())
            launched = heard * _ratio(watched, windows.launches_ns)
            if heard and mine.any():
                result[mine] = max(1.0, launched / _calls_of(activities.where(mine)))
                is_counted[mine] = True
    else:
        result[:] = _by_calls(windows, activities, records.lost, by_time)
    is_counted[is_graph] = False
    result[is_graph] = _ratio(watched, watched - windows.nodes_ns) * records.factor
    result[is_node] = _ratio(watched, windows.nodes_ns) * records.factor
    launched_ns = launches.where(launches["kind"] == ActivityKind.GRAPH)["start_ns"]
    if launched_ns.size and windows.launches_ns >= watched - windows.nodes_ns:
        launched = launched_ns.size * _ratio(watched, windows.launches_ns)
        result[is_graph] = max(1.0, launched / max(int(is_graph.sum()), 1))
        is_counted[is_graph] = True
        with_nodes = int(windows.has_nodes(launched_ns).sum())
        if with_nodes:
            result[is_node] = launched / with_nodes * records.factor
            is_counted[is_node] = True
    return Weights(result, is_counted)


def _calls_of(activities: Columns) -> int:
    """By how many calls these were launched: one may start several copies."""
    numbers = activities["correlation"]
    known = numbers[numbers != 0]
    return int(np.unique(known).size) + int(numbers.size - known.size)


def _by_calls(windows: GpuWindows, activities: Columns, lost: int, by_time: float) -> float:
    """The weight of a record by the numbers of API calls, which go on where nobody listens.

    A busy program does more calls between the windows than in them, for there it is not slowed
    down. Where the numbers do not go on (that of a real CUPTI is not confirmed), time counts.
    """
    numbers = activities["correlation"].astype(np.int64)
    order = np.argsort(numbers, kind="stable")
    order = order[numbers[order] > 0]
    off_windows = windows.on_intervals()[0].size - 1
    if off_windows < _LEAST_WINDOWS - 1 or order.size < 2:
        return by_time
    numbers, starts_ns = numbers[order], activities["start_ns"][order]
    calls = int(numbers[-1] - numbers[0])
    spans_ns = int(starts_ns[-1] - starts_ns[0])
    # The calls of an off window are a jump in the numbers. Times do not tell as well which record
    # belongs to which window: the mark of one may be written long after it began.
    jumps = np.sort(np.maximum(np.diff(numbers) - 1, 0))
    between = jumps[-off_windows:].sum() + _lost_in_windows(jumps[:-off_windows], lost)
    inside = calls + 1 - int(between)
    if spans_ns <= 0 or calls <= 0 or inside <= 0:
        return by_time
    weight = calls / spans_ns * windows.watched_ns / inside
    return weight if by_time * 0.25 <= weight <= by_time * 20 else by_time


def _lost_in_windows(jumps: Array, lost: int) -> int:
    """Of the sorted jumps within windows, those that are lost records: whole buffers of them.

    What was lost at the end of a window is part of the jump to the next one.
    """
    if not jumps.size or lost <= 0:
        return 0
    usual = max(float(jumps[jumps.size // 2]), 1.0)
    large = jumps[jumps > _LOST_AT_ONCE * usual]
    return min(int(large.sum()), lost)


def _ratio(whole: int, part: int) -> float:
    return whole / part if part > 0 else 1.0
