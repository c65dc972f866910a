"""The chain of what waited for what that set the length of the job."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass

import numpy as np

from pilotlight.insights.recorded_graph import RecordedGraph, Role
from pilotlight.model.graph import replay
from pilotlight.trace.trace import Float64, Int64


@dataclass(frozen=True)
class PathPart:
    """All nodes of a role, name and rank on the path; the rank of a shared collective is None."""

    role: str
    name: str
    rank: int | None
    count: int
    total_ns: float
    ratio: float


def chain(graph: RecordedGraph) -> tuple[Int64, Float64]:
    """The nodes of the path, first to last, and when each ended since the begin of the job."""
    ends = replay(graph.graph, graph.duration_ns[np.newaxis])[0]
    first, before = graph.graph.first, graph.graph.predecessors
    nodes = [int(ends.argmax())]
    while True:
        waited = before[first[nodes[-1]] : first[nodes[-1] + 1]]
        if not len(waited):
            break
        nodes.append(int(waited[ends[waited].argmax()]))
    found = np.array(nodes[::-1], np.int64)
    return found, ends[found]


def critical_path(graph: RecordedGraph) -> list[PathPart]:
    """The longest parts first; together they are the whole time."""
    nodes, ends = chain(graph)
    whole = float(ends[-1])
    totals: dict[tuple[int, int, int], list[float]] = defaultdict(lambda: [0, 0.0])
    for node in nodes.tolist():
        entry = totals[int(graph.role[node]), int(graph.name[node]), int(graph.rank[node])]
        entry[0] += 1
        entry[1] += float(graph.duration_ns[node])
    parts = [
        PathPart(
            Role(role).name.lower(),
            graph.names[name],
            rank if rank >= 0 else None,
            int(count),
            total,
            total / whole if whole else 0.0,
        )
        for (role, name, rank), (count, total) in totals.items()
        if total
    ]
    return sorted(parts, key=lambda part: -part.total_ns)


def by_role(parts: list[PathPart]) -> dict[str, float]:
    """The part of the whole time by role, the longest first."""
    totals: dict[str, float] = defaultdict(float)
    for part in parts:
        totals[part.role] += part.ratio
    return dict(sorted(totals.items(), key=lambda item: -item[1]))
