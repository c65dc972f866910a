"""The critical path as spans of the ranks that it goes through."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from pilotlight.errors import FormatError
from pilotlight.insights.critical_path import chain
from pilotlight.insights.job import Job
from pilotlight.insights.recorded_graph import Role, recorded_graph
from pilotlight.trace.trace import Float64, Int64
from pilotlight.web.activity import Activity

SPANS_LIMIT = 50_000
"""The graph has a node for each call and device span: beyond this it takes longer than a reader
of the page waits."""

ACTIVITIES = {
    Role.HOST: Activity.HOST,
    Role.CALL: Activity.OVERHEAD,
    Role.DELAY: Activity.IDLE,
    Role.KERNEL: Activity.COMPUTE,
    Role.COPY: Activity.COPY,
    Role.COLLECTIVE: Activity.COMMUNICATION,
}


@dataclass(frozen=True)
class PathSpans:
    """Of one rank, on the rank's own clock."""

    start_ns: Int64
    duration_ns: Int64
    name: Int64
    names: tuple[str, ...]
    role: Int64


@dataclass(frozen=True)
class Path:
    """`ratios`: by role the part of the whole time. `missing`: why there is none."""

    by_rank: Mapping[int, PathSpans]
    ratios: Mapping[str, float]
    missing: str = ""


def path_of(job: Job, offset_ns: Mapping[int, int]) -> Path:
    if not job.ranks:
        return Path({}, {}, "no rank with a device")
    if sum(len(view.trace.spans) for view in job.ranks) > SPANS_LIMIT:
        return Path({}, {}, f"more than {SPANS_LIMIT:,} spans")
    try:
        graph = recorded_graph(job)
    except FormatError as error:
        return Path({}, {}, str(error))
    nodes, ends = chain(graph)
    length = graph.duration_ns[nodes]
    begin_ns = min(int(v.trace.spans.start_ns.min()) - offset_ns[v.rank] for v in job.ranks)
    columns = (graph.rank, graph.role, graph.name)
    rank, role, name = (column[nodes].astype(np.int64) for column in columns)
    rank = owners(rank)
    by_rank = {}
    for number in np.unique(rank).tolist():
        mine = (rank == number) & (length > 0)
        start = begin_ns + offset_ns[number] + np.rint(ends - length).astype(np.int64)
        by_rank[number] = PathSpans(
            start[mine], np.rint(length).astype(np.int64)[mine], name[mine], graph.names, role[mine]
        )
    return Path(by_rank, _ratios(role, length))


def owners(rank: Int64) -> Int64:
    """A collective is of all ranks: it is shown with the one that came last, the node before it."""
    known = np.maximum.accumulate(np.where(rank >= 0, np.arange(rank.size), -1))
    first = rank[rank >= 0][0] if (rank >= 0).any() else 0
    return np.where(known >= 0, rank[known], first)


def _ratios(role: Int64, length: Float64) -> dict[str, float]:
    whole = float(length.sum()) or 1.0
    found = {each.name.lower(): float(length[role == each].sum()) / whole for each in Role}
    return dict(sorted(found.items(), key=lambda item: -item[1]))
