"""Where the time of a host went: what a trace without device activity can tell."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

import numpy as np

from pilotlight.insights.host_windows import host_parts
from pilotlight.trace.interval import EMPTY, union, window
from pilotlight.trace.nested import call_tree, lane_parts
from pilotlight.trace.trace import Int64, Kind, Spans, Trace

MAX_SPANS = 3_000_000
_HOST_KINDS = (Kind.OPERATOR, Kind.ANNOTATION, Kind.PYTHON, Kind.RUNTIME, Kind.GC, Kind.OTHER)
# What a trace has that knows no operators, such as one of a Python tracer.
_PLAIN_KINDS = (Kind.ANNOTATION, Kind.PYTHON, Kind.RUNTIME, Kind.OTHER)


@dataclass(frozen=True)
class HostTime:
    """Nanoseconds of a rank's host; the parts, the operators outside of them and the rest (Python
    and waiting) add up to the window."""

    rank: int
    window_ns: int
    steps: int
    step_ns: float | None
    parts_ns: dict[str, int]
    operators_ns: int
    rest_ns: int


@dataclass(frozen=True)
class HostOperator:
    """An operator with all of its calls: with what it called, and alone. Of a trace without
    operators any span."""

    rank: int
    operator: str
    count: int
    total_ns: int
    self_ns: int


def host_times(traces: Sequence[Trace]) -> list[HostTime]:
    return [row for trace in traces if (row := _host_time(trace)) is not None]


def _host_time(trace: Trace) -> HostTime | None:
    """Of the steps where there are any, otherwise from the first span to the last."""
    host = trace.of_kind(*_HOST_KINDS)
    if not len(host):
        return None
    steps = trace.steps
    if len(steps):
        whole = union(steps.start_ns, steps.start_ns + steps.duration_ns)
    else:
        whole = window(int(host.start_ns.min()), int(host.end_ns.max()))
    taken = EMPTY
    parts = {}
    for name, intervals in host_parts(trace).items():
        mine = (intervals & whole) - taken
        parts[name] = mine.total_ns()
        taken = taken | mine
    operators = trace.of_kind(Kind.OPERATOR)
    computed = (union(operators.start_ns, operators.end_ns) & whole) - taken
    return HostTime(
        trace.rank,
        whole.total_ns(),
        len(steps),
        float(median(steps.duration_ns.tolist())) if len(steps) else None,
        parts,
        computed.total_ns(),
        (whole - taken - computed).total_ns(),
    )


def host_operators(traces: Sequence[Trace]) -> list[HostOperator]:
    """By name, those with the most time of their own first; empty for more than MAX_SPANS."""
    found = []
    for trace in traces:
        rows = operator_rows(trace)
        if 0 < len(rows) <= MAX_SPANS:
            found += _operators(trace, rows)
    return sorted(found, key=lambda row: -row.self_ns)


def operator_rows(trace: Trace) -> Int64:
    """The spans of operators; of a trace without any, all that stands for them."""
    rows = np.flatnonzero(trace.spans.is_kind(Kind.OPERATOR))
    return rows if len(rows) else np.flatnonzero(trace.spans.is_kind(*_PLAIN_KINDS))


def _operators(trace: Trace, rows: Int64) -> list[HostOperator]:
    own: dict[int, list[int]] = {}
    for _, part in lane_parts(trace, rows):
        for node in call_tree(trace, part)[1:]:
            entry = own.setdefault(node.name, [0, 0])
            entry[0] += node.count
            entry[1] += node.self_ns
    spans = trace.spans.take(rows)
    order = np.argsort(spans.name, kind="stable")
    names, first = np.unique(spans.name[order], return_index=True)
    return [
        HostOperator(trace.rank, trace.names[name], own[name][0], _held_ns(spans.take(mine)),
                     own[name][1])
        for name, mine in zip(names.tolist(), np.split(order, first[1:]), strict=True)
    ]  # fmt: skip


def _held_ns(spans: Spans) -> int:
    """An operator within itself counts once, one on two threads twice."""
    threads = (spans.take(spans.lane == lane) for lane in np.unique(spans.lane))
    return sum(union(each.start_ns, each.end_ns).total_ns() for each in threads)
