"""The steps of hosts, one by one: what two runs without device activity are compared by."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from pilotlight.insights.host_time import host_operators
from pilotlight.insights.host_windows import host_parts
from pilotlight.trace.interval import EMPTY, union
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


def operator_means(traces: Sequence[Trace]) -> dict[str, float]:
    """The own time of each operator, a step and rank."""
    steps = sum(max(1, len(trace.steps)) for trace in traces)
    found: dict[str, float] = {}
    for row in host_operators(traces):
        found[row.operator] = found.get(row.operator, 0.0) + row.self_ns / steps
    return found
