"""For how much of its kind a record of the GPU stands, by the windows that it was seen in."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from pilotlight.recording.columns import Array, Columns
from pilotlight.recording.gpu_windows import GpuWindows, Timed
from pilotlight.recording.schema import ActivityKind

# From here on the launches that were heard count the work better than the clock does.
_KNOWN_RATIO = 0.5
_LEAST_WINDOWS = 4
# Of the shorter of its neighbours: a window below that was cut short.
_CUT_RATIO = 0.25
# A jump in the numbers of calls this much above the usual one is more than calls without a record.
_LOST_AT_ONCE = 50


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
    number counts besides the time that each window stands for; what was lost is then among what is
    missing already.
    Of graphs, it does where launches were heard for longer than graphs were timed.
    """
    watched = windows.watched_ns
    sorts = timed_as(activities)
    is_graph, is_node = sorts[Timed.GRAPHS], sorts[Timed.NODES]
    is_counted = np.zeros(activities.rows, bool)
    by_time = _ratio(watched, windows.records_ns) * records.factor
    result: Array = np.full(activities.rows, by_time)
    heard_ratio = _ratio(watched, windows.launches_ns)
    at_ns = _launched_at(activities, launches)
    if windows.launches_ns >= _KNOWN_RATIO * watched and launches.rows:
        for kind in np.unique(activities["kind"]).tolist():
            mine = (activities["kind"] == kind) & ~is_node
            heard_ns = launches["start_ns"][launches["kind"] == kind]
            if heard_ns.size and mine.any():
                cells = _Cells.of(windows, Timed.OTHERS)
                calls_ns = at_ns[mine][_first_of_calls(activities["correlation"][mine])]
                of_each = cells.weights(heard_ns, calls_ns, at_ns[mine]) * heard_ratio
                result[mine] = np.maximum(of_each, 1.0)
                is_counted[mine] = True
    else:
        result[:] = _by_calls(windows, activities, records.lost, by_time)
    is_counted[is_graph] = False
    result[is_graph] = _ratio(watched, watched - windows.nodes_ns) * records.factor
    result[is_node] = _ratio(watched, windows.nodes_ns) * records.factor
    heard_ns = launches.where(launches["kind"] == ActivityKind.GRAPH)["start_ns"]
    if heard_ns.size and windows.launches_ns >= watched - windows.nodes_ns:
        cells, graphs_ns = _Cells.of(windows, Timed.GRAPHS), at_ns[is_graph]
        of_each = cells.weights(heard_ns, graphs_ns, graphs_ns) * heard_ratio
        result[is_graph] = np.maximum(of_each, 1.0)
        is_counted[is_graph] = True
        shown_ns = heard_ns[windows.has_nodes(heard_ns)]
        if shown_ns.size:
            of_each = _Cells.of(windows, Timed.NODES).weights(heard_ns, shown_ns, at_ns[is_node])
            result[is_node] = of_each * heard_ratio * records.factor
            is_counted[is_node] = True
    return Weights(result, is_counted)


@dataclass(frozen=True)
class _Cells:
    """Windows that show some work, and for how much time each stands: to the middle of the gaps
    beside it. How much is seen follows what it costs, and work early in a job is not what it is
    later: so no share is that of the whole time.

    The first window, if it is there from the beginning, stands for itself: a program starts once.
    """

    begins_ns: Array
    ends_ns: Array
    shares: Array  # of a window's time in the time that it stands for, inverted
    from_start: bool

    @classmethod
    def of(cls, windows: GpuWindows, work: Timed) -> _Cells:
        shown = windows.timed(work)
        changes = np.flatnonzero(np.diff(np.concatenate(([False], shown, [False]))))
        edges_ns = np.append(windows.start_ns, windows.end_ns)
        begins, ends = edges_ns[changes[::2]], edges_ns[changes[1::2]]
        middles = (ends[:-1] + begins[1:]) / 2
        from_start = bool(shown[0]) and begins.size > 1
        if from_start:
            middles[0] = ends[0]
        if not begins.size:
            return cls(begins, ends, np.array([]), False)
        cells = np.diff(np.concatenate((edges_ns[:1], middles, edges_ns[-1:])))
        first = int(from_start)
        shares = _shares(cells[first:], (ends - begins)[first:])
        return cls(begins, ends, np.concatenate((np.ones(first), shares)), from_start)

    def weights(self, heard_ns: Array, seen_ns: Array, at_ns: Array) -> Array:
        """For how many each activity `at` stands, by when the launches were that are `heard`, of
        which those are `seen`: so that all weights together are their number."""
        first = int(self.from_start)
        seen = self.place(seen_ns)
        if not self.begins_ns.size:  # the marks of windows were lost
            return np.full(at_ns.size, heard_ns.size / max(seen_ns.size, 1))
        of_first, rest = int((seen < first).sum()), float(self.shares[seen[seen >= first]].sum())
        heard_first = int((heard_ns < self.ends_ns[0]).sum()) if first else 0
        if rest <= 0 or (heard_first > 0 and of_first == 0):
            return np.full(at_ns.size, heard_ns.size / max(seen_ns.size, 1))
        of_each: Array = self.shares * (heard_ns.size - heard_first) / rest
        if first:
            of_each[0] = heard_first / max(of_first, 1)
        return of_each[self.place(at_ns)]

    def place(self, times_ns: Array) -> Array:
        place: Array = np.searchsorted(self.begins_ns, times_ns, side="right") - 1
        return np.maximum(place, 0)


def _shares(cells: Array, lengths: Array) -> Array:
    """How often each window goes into the time that it stands for. One that was cut short does not
    stand for that much by its few records: it counts together with its neighbours."""
    edge = np.array([np.inf])
    least = np.minimum(np.append(edge, lengths[:-1]), np.append(lengths[1:], edge))
    is_cut = lengths < _CUT_RATIO * least
    together = _with_neighbours(cells) / np.maximum(_with_neighbours(lengths), 1)
    shares: Array = np.where(is_cut & (lengths.size > 1), together, cells / np.maximum(lengths, 1))
    return shares


def _with_neighbours(values: Array) -> Array:
    """Each and the one before and after it, added up."""
    sums = np.append(0, np.cumsum(values))
    place = np.arange(values.size)
    together: Array = sums[np.minimum(place + 2, values.size)] - sums[np.maximum(place - 1, 0)]
    return together


def _launched_at(activities: Columns, launches: Columns) -> Array:
    """When each was launched, which decides whether it is recorded; else when it began."""
    order = np.argsort(launches["correlation"], kind="stable")
    numbers = launches["correlation"][order]
    begun: Array = activities["start_ns"].astype(np.int64)
    if not numbers.size:
        return begun
    place = np.minimum(np.searchsorted(numbers, activities["correlation"]), numbers.size - 1)
    is_known = (numbers[place] == activities["correlation"]) & (activities["correlation"] != 0)
    at_ns: Array = np.where(is_known, launches["start_ns"][order[place]], begun)
    return at_ns


def _first_of_calls(numbers: Array) -> Array:
    """Rows of which each is of another call: one may start several copies. 0: not known."""
    _, first = np.unique(numbers, return_index=True)
    rows: Array = np.union1d(first, np.flatnonzero(numbers == 0))
    return rows


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
