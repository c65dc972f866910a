"""Which module and operator launched a kernel."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass

import numpy as np

from pilotlight.insights.rank import RankView
from pilotlight.trace.trace import NONE, Bool, Int64, Kind, Spans

OUTSIDE = "(outside)"
MODULE = "nn.Module: "
MAX_SPANS = 3_000_000


@dataclass(frozen=True)
class OwnerTime:
    """Kernels by what launched them: a module or the outermost operator."""

    rank: int
    owner: str
    kernels: int
    total_ns: int


def module_times(view: RankView) -> list[OwnerTime]:
    """By innermost module; empty if the trace has none (with_modules, with_stack)."""
    names = np.array([name.startswith(MODULE) for name in view.trace.names], np.bool_)
    spans = view.trace.spans
    chosen = names[spans.name] if len(names) else np.zeros(len(spans), np.bool_)
    return _times(view, spans.take(chosen), np.ones(int(chosen.sum()), np.bool_))


def operator_times(view: RankView) -> list[OwnerTime]:
    """By outermost operator; steps and other annotations are left out."""
    spans = view.trace.of_kind(Kind.OPERATOR)
    return _times(view, spans, np.zeros(len(spans), np.bool_))


def _times(view: RankView, spans: Spans, innermost: Bool) -> list[OwnerTime]:
    kernels = view.device.kind == Kind.KERNEL
    known = np.flatnonzero(kernels & (view.launch != NONE))
    if not len(spans) or not len(known) or len(spans) > MAX_SPANS:
        return []
    calls = view.calls.take(view.launch[known])
    owner = enclosing(spans, calls.lane.astype(np.int64), calls.start_ns, bool(innermost[0]))
    totals: dict[str, list[int]] = defaultdict(lambda: [0, 0])
    names = view.trace.names
    for row, length in zip(owner.tolist(), view.device.duration_ns[known].tolist(), strict=True):
        entry = totals[names[spans.name[row]].removeprefix(MODULE) if row != NONE else OUTSIDE]
        entry[0] += 1
        entry[1] += length
    rows = [OwnerTime(view.rank, name, count, total) for name, (count, total) in totals.items()]
    return sorted(rows, key=lambda row: -row.total_ns)


def enclosing(spans: Spans, lane: Int64, time_ns: Int64, innermost: bool) -> Int64:
    """For each time on a lane the row of the span around it, or -1."""
    found = np.full(len(time_ns), NONE, np.int64)
    for each in np.unique(lane):
        mine = np.flatnonzero(spans.lane == each)
        mine = mine[np.lexsort((-spans.duration_ns[mine], spans.start_ns[mine]))]
        asked = np.flatnonzero(lane == each)
        asked = asked[np.argsort(time_ns[asked], kind="stable")]
        starts, ends = spans.start_ns[mine].tolist(), spans.end_ns[mine].tolist()
        stack: list[int] = []
        place = 0
        for row, time in zip(asked.tolist(), time_ns[asked].tolist(), strict=True):
            while place < len(starts) and starts[place] <= time:
                while stack and ends[stack[-1]] <= starts[place]:
                    stack.pop()
                stack.append(place)
                place += 1
            while stack and ends[stack[-1]] <= time:
                stack.pop()
            if stack:
                found[row] = mine[stack[-1 if innermost else 0]]
    return found
