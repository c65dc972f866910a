"""For how much of its kind a record of the GPU stands, by the windows that it was seen in."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from pilotlight.recording.columns import Array, Columns
from pilotlight.recording.gpu_calls import by_calls
from pilotlight.recording.gpu_cells import Cells
from pilotlight.recording.gpu_windows import GpuWindows, Timed
from pilotlight.recording.schema import ActivityKind

# From here on the launches that were heard count the work better than the clock does.
_KNOWN_RATIO = 0.5


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
    alone; everything else whenever device records are on. Each window stands for the time beside
    it. Where most launches were heard, their number counts besides, else that of calls; what was
    lost is then among what is missing already.
    Of graphs, it does where launches were heard for longer than graphs were timed.
    """
    watched = windows.watched_ns
    if windows.has_ended:  # what came after it stands for nothing, and nothing for it
        launches = launches.where(launches["start_ns"] < windows.end_ns)
    sorts = timed_as(activities)
    is_graph, is_node, is_other = (sorts[sort] for sort in Timed)
    is_counted = np.zeros(activities.rows, bool)
    heard_ratio = _ratio(watched, windows.launches_ns)
    at_ns = _launched_at(activities, launches)
    result: Array = np.ones(activities.rows)
    for sort, mine in sorts.items():
        result[mine] = Cells.of(windows, sort).by_time(at_ns[mine]) * records.factor
    if windows.launches_ns >= _KNOWN_RATIO * watched and launches.rows:
        for kind in np.unique(activities["kind"]).tolist():
            mine = (activities["kind"] == kind) & is_other
            heard_ns = launches["start_ns"][launches["kind"] == kind]
            if heard_ns.size and mine.any():
                cells = Cells.of(windows, Timed.OTHERS)
                calls_ns = at_ns[mine][_first_of_calls(activities["correlation"][mine])]
                of_each = cells.weights(heard_ns, calls_ns, at_ns[mine]) * heard_ratio
                result[mine] = np.maximum(of_each, 1.0)
                is_counted[mine] = True
    else:
        told = by_calls(windows, activities.where(is_other), records.lost)
        result[is_other] = told if told is not None else result[is_other]
    heard_ns = launches.where(launches["kind"] == ActivityKind.GRAPH)["start_ns"]
    if heard_ns.size and windows.launches_ns >= watched - windows.nodes_ns:
        cells, graphs_ns = Cells.of(windows, Timed.GRAPHS), at_ns[is_graph]
        of_each = cells.weights(heard_ns, graphs_ns, graphs_ns) * heard_ratio
        result[is_graph] = np.maximum(of_each, 1.0)
        is_counted[is_graph] = True
        shown_ns = heard_ns[windows.has_nodes(heard_ns)]
        if shown_ns.size:
            of_each = Cells.of(windows, Timed.NODES).weights(heard_ns, shown_ns, at_ns[is_node])
            result[is_node] = of_each * heard_ratio * records.factor
            is_counted[is_node] = True
    return Weights(result, is_counted)


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


def _ratio(whole: int, part: int) -> float:
    return whole / part if part > 0 else 1.0
