"""What a capture says at a glance: each rank's steps, its costliest operators, its collectives."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from pilotlight.capture.manifest import Step
from pilotlight.trace.reader import read_traces
from pilotlight.trace.trace import Kind, Trace

# What the backends do; c10d:: operators only hand it to them.
_COLLECTIVES = ("nccl:", "gloo:", "mpi:", "ucc:")
_MOST_OPERATORS = 50


@dataclass(frozen=True)
class Operator:
    name: str
    calls: int
    self_ns: int


@dataclass(frozen=True)
class RankSummary:
    rank: int
    source: str
    format: str
    spans: int
    steps: tuple[Step, ...]
    collective_ns: int
    operators: tuple[Operator, ...]


def summarize(folder: Path) -> tuple[tuple[RankSummary, ...], tuple[str, ...]]:
    """By rank, and what was wrong with the files."""
    found = read_traces([folder])
    ranks = tuple(rank_summary(trace) for trace in found.traces)
    return ranks, tuple(str(problem) for problem in found.problems)


def rank_summary(trace: Trace) -> RankSummary:
    steps = trace.steps
    operators = operator_times(trace)
    return RankSummary(
        rank=trace.rank,
        source=trace.source,
        format=trace.format,
        spans=len(trace.spans),
        steps=tuple(
            Step(int(number), int(start), int(duration))
            for number, start, duration in zip(
                steps.number, steps.start_ns, steps.duration_ns, strict=True
            )
        ),
        collective_ns=sum(o.self_ns for o in operators if o.name.startswith(_COLLECTIVES)),
        operators=tuple(operators[:_MOST_OPERATORS]),
    )


def operator_times(trace: Trace) -> list[Operator]:
    """Time that each operator spends itself, without those it calls; costliest first."""
    rows = np.isin(trace.spans.kind, np.array((Kind.OPERATOR, Kind.ANNOTATION), np.uint8))
    spans = trace.spans.take(rows)
    self_ns = spans.duration_ns.copy()
    order = np.lexsort((-spans.duration_ns, spans.start_ns, spans.lane))
    start, end = spans.start_ns.tolist(), spans.end_ns.tolist()
    lane, duration = spans.lane.tolist(), spans.duration_ns.tolist()
    open_rows: list[int] = []
    for row in order.tolist():
        while open_rows and (lane[open_rows[-1]] != lane[row] or end[open_rows[-1]] <= start[row]):
            open_rows.pop()
        if open_rows and end[row] <= end[open_rows[-1]]:
            self_ns[open_rows[-1]] -= duration[row]
        open_rows.append(row)
    totals: dict[int, list[int]] = defaultdict(lambda: [0, 0])
    for name, own_ns in zip(spans.name.tolist(), self_ns.tolist(), strict=True):
        totals[name][0] += 1
        totals[name][1] += own_ns
    found = [Operator(trace.names[name], calls, ns) for name, (calls, ns) in totals.items()]
    return sorted(found, key=lambda operator: -operator.self_ns)


def costliest(ranks: Sequence[RankSummary], count: int) -> list[Operator]:
    """Over all ranks together."""
    totals: dict[str, list[int]] = defaultdict(lambda: [0, 0])
    for rank in ranks:
        for operator in rank.operators:
            totals[operator.name][0] += operator.calls
            totals[operator.name][1] += operator.self_ns
    found = [Operator(name, calls, ns) for name, (calls, ns) in totals.items()]
    return sorted(found, key=lambda operator: -operator.self_ns)[:count]
