"""Where the time of a host went: what a trace without device activity can tell."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

import numpy as np

from pilotlight.insights.host_windows import host_parts
from pilotlight.trace.interval import EMPTY, Intervals, union, window
from pilotlight.trace.nested import call_tree, lane_parts, own_parts, parents
from pilotlight.trace.trace import Int64, Kind, Spans, Trace

MAX_SPANS = 3_000_000
_HOST_KINDS = (Kind.OPERATOR, Kind.ANNOTATION, Kind.PYTHON, Kind.RUNTIME, Kind.GC, Kind.OTHER)
# What a trace has that knows no operators, such as one of a Python tracer.
_PLAIN_KINDS = (Kind.ANNOTATION, Kind.PYTHON, Kind.RUNTIME, Kind.OTHER)
# Each object of a built-in method has an address of its own.
_OBJECT = re.compile(r" of .* object at 0x[0-9a-f]+>$")


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


@dataclass(frozen=True)
class HostFunction:
    """A Python function, a built-in one with its caller: the time in it, and in nothing that it
    called, while no operator ran and the host was in none of its parts."""

    rank: int
    function: str
    count: int
    self_ns: int


def host_times(traces: Sequence[Trace]) -> list[HostTime]:
    return [row for trace in traces if (row := _host_time(trace)) is not None]


def _host_time(trace: Trace) -> HostTime | None:
    host = trace.of_kind(*_HOST_KINDS)
    if not len(host):
        return None
    parts, operators, rest = _divided(trace, host)
    steps = trace.steps
    return HostTime(
        trace.rank,
        sum(each.total_ns() for each in (*parts.values(), operators, rest)),
        len(steps),
        float(median(steps.duration_ns.tolist())) if len(steps) else None,
        {name: mine.total_ns() for name, mine in parts.items()},
        operators.total_ns(),
        rest.total_ns(),
    )


def _divided(trace: Trace, host: Spans) -> tuple[dict[str, Intervals], Intervals, Intervals]:
    """Parts, operators and the rest: of the steps where there are any, otherwise from the first
    span of the host to the last."""
    steps = trace.steps
    if len(steps):
        whole = union(steps.start_ns, steps.start_ns + steps.duration_ns)
    else:
        whole = window(int(host.start_ns.min()), int(host.end_ns.max()))
    taken = EMPTY
    parts = {}
    for name, intervals in host_parts(trace).items():
        parts[name] = (intervals & whole) - taken
        taken = taken | parts[name]
    operators = trace.of_kind(Kind.OPERATOR)
    computed = (union(operators.start_ns, operators.end_ns) & whole) - taken
    return parts, computed, whole - taken - computed


def host_functions(traces: Sequence[Trace]) -> list[HostFunction]:
    """What is behind "Python and waiting", the longest first: of traces with stacks, not of more
    than MAX_SPANS functions."""
    found = []
    for trace in traces:
        spans = trace.of_kind(Kind.PYTHON)
        if not 0 < len(spans) <= MAX_SPANS:
            continue
        *_, rest = _divided(trace, trace.of_kind(*_HOST_KINDS))
        own_ns = own_parts(spans, rest.within_ns(spans.start_ns, spans.end_ns))
        around = parents(spans)
        sums: dict[str, list[int]] = {}
        for row in np.flatnonzero(own_ns).tolist():
            name = _OBJECT.sub(">", trace.names[spans.name[row]])
            if name.startswith("<built-in") and around[row] >= 0:
                name += f" in {trace.names[spans.name[around[row]]]}"
            entry = sums.setdefault(name, [0, 0])
            entry[0] += 1
            entry[1] += int(own_ns[row])
        found += [HostFunction(trace.rank, name, *entry) for name, entry in sums.items()]
    return sorted(found, key=lambda row: -row.self_ns)


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
