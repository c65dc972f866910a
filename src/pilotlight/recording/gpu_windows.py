"""When the GPU provider collected what (docs/gpu.md)."""

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


def launched_after_end(windows: GpuWindows, activities: Columns, launches: Columns) -> int:
    """Launches without a record of a process that ended in order: what CUPTI had was asked for
    before, and the program went on, in an exit handler or on another thread."""
    if not windows.has_ended:
        return 0
    after = np.isin(launches["kind"], _ONE_RECORD) & (launches["start_ns"] >= windows.end_ns)
    return int((~np.isin(launches["correlation"][after], activities["correlation"])).sum())


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
