"""The steps of hosts, one by one: what two runs without device activity are compared by."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from pilotlight.insights.host_time import MAX_SPANS, operator_rows
from pilotlight.insights.host_windows import host_parts
from pilotlight.trace.interval import EMPTY, union
from pilotlight.trace.nested import own_parts
from pilotlight.trace.trace import Float64, Int64, Kind, Trace


def host_steps(traces: Sequence[Trace]) -> list[tuple[Trace, Int64, Int64]]:
    """Begins and ends of the steps of each rank: without the first of three or more, which holds
    the start of the profiler; without steps the trace is one."""
    found = []
    for trace in traces:
        steps = trace.steps
        if len(steps):
            skip = 1 if len(steps) >= 3 else 0
            start_ns = steps.start_ns[skip:]
            found.append((trace, start_ns, start_ns + steps.duration_ns[skip:]))
        elif len(trace.spans):
            begin, end = trace.spans.start_ns.min(), trace.spans.end_ns.max()
            found.append((trace, np.array([begin]), np.array([end])))
    return found


def host_samples(traces: Sequence[Trace]) -> dict[str, Float64]:
    """By part a value a step, the mean over the ranks: the step, what the host spent in each of its
    parts, in operators outside of them, and the rest."""
    rows = [_row(trace, start_ns, end_ns) for trace, start_ns, end_ns in host_steps(traces)]
    length = min(len(row["step_time"]) for row in rows)
    return {name: np.mean([row[name][:length] for row in rows], axis=0) for name in rows[0]}


def _row(trace: Trace, start_ns: Int64, end_ns: Int64) -> dict[str, Float64]:
    row = {"step_time": (end_ns - start_ns).astype(np.float64)}
    taken = EMPTY
    for name, intervals in host_parts(trace).items():
        mine = intervals - taken
        row[name] = mine.within_ns(start_ns, end_ns).astype(np.float64)
        taken = taken | mine
    operators = trace.of_kind(Kind.OPERATOR)
    computed = union(operators.start_ns, operators.end_ns) - taken
    row["operators"] = computed.within_ns(start_ns, end_ns).astype(np.float64)
    covered = (taken | computed).within_ns(start_ns, end_ns)
    row["Python and waiting"] = row["step_time"] - covered
    return row


def operator_steps(traces: Sequence[Trace]) -> dict[str, Float64]:
    """The own time of each operator in each step, the mean over the ranks; empty where there are
    more than MAX_SPANS."""
    ranks = host_steps(traces)
    length = min(len(start_ns) for _, start_ns, _ in ranks)
    found: dict[str, Float64] = {}
    for trace, start_ns, end_ns in ranks:
        spans = trace.spans.take(operator_rows(trace))
        if len(spans) > MAX_SPANS:
            continue
        own_ns = own_parts(spans, spans.duration_ns)
        step = np.searchsorted(start_ns, spans.start_ns, side="right") - 1
        inside = (step >= 0) & (step < length) & (spans.start_ns < end_ns[step])
        names, place = np.unique(spans.name[inside], return_inverse=True)
        cells = place * length + step[inside]
        table = np.bincount(cells, own_ns[inside], len(names) * length).reshape(-1, length)
        for number, row in zip(names.tolist(), table, strict=True):
            name = trace.names[number]
            found[name] = found.get(name, 0.0) + row / len(ranks)
    return found
