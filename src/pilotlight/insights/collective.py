"""Collectives matched across ranks: who arrived when, what was waiting and what was transfer."""

from __future__ import annotations

import re
from collections import defaultdict
from dataclasses import dataclass

import numpy as np

from pilotlight.insights.job import Job, RankView
from pilotlight.insights.kernel import Category, category
from pilotlight.trace.trace import Float64, Int64, Kind

_KIND = re.compile(
    r"AllReduce|AllGather|ReduceScatter|Broadcast|SendRecv|AllToAll|Reduce", re.IGNORECASE
)


MAX_UNCERTAINTY_NS = 50_000


@dataclass(frozen=True)
class Collectives:
    """Rows are collectives, columns the ranks in order. All ranks leave a collective together, so
    what a rank spends in it beyond the shortest stay is waiting for the last to arrive."""

    ranks: tuple[int, ...]
    kind: tuple[str, ...]
    duration_ns: Int64
    start_ns: Int64

    @property
    def wait_ns(self) -> Int64:
        waits: Int64 = self.duration_ns - self.duration_ns.min(axis=1, keepdims=True)
        return waits

    @property
    def last(self) -> Int64:
        """The column of the rank that arrived last in each row."""
        column: Int64 = self.duration_ns.argmin(axis=1)
        return column


def match_collectives(job: Job) -> Collectives | None:
    """None if the ranks did not run the same collectives in the same order."""
    if len(job.ranks) < 2:
        return None
    lists = [_by_kind(view) for view in job.ranks]
    kinds = [
        kind
        for kind in lists[0]
        if all(_count(each, kind) == _count(lists[0], kind) for each in lists)
    ]
    rows_kind: list[str] = []
    durations, starts = [], []
    for kind in kinds:
        count = _count(lists[0], kind)
        rows_kind += [kind] * count
        durations.append(np.stack([each[kind][1] for each in lists], axis=1))
        starts.append(np.stack([each[kind][0] for each in lists], axis=1))
    if not rows_kind:
        return None
    ranks = tuple(view.rank for view in job.ranks)
    found = Collectives(ranks, tuple(rows_kind), np.concatenate(durations), np.concatenate(starts))
    if not _leave_together(found):
        return None
    order = np.argsort(found.start_ns.min(axis=1), kind="stable")
    return Collectives(
        ranks,
        tuple(rows_kind[i] for i in order),
        found.duration_ns[order],
        found.start_ns[order],
    )


def clock_offsets(found: Collectives) -> tuple[Float64, float]:
    """How far the clock of each rank is ahead, from the common ends of collectives, and how far
    the ends still differ after correction, both in nanoseconds."""
    ends = (found.start_ns + found.duration_ns).astype(np.float64)
    ahead = ends - np.median(ends, axis=1, keepdims=True)
    offsets: Float64 = np.median(ahead, axis=0)
    return offsets, float(np.median(np.abs(ahead - offsets)))


def _leave_together(found: Collectives) -> bool:
    """Otherwise the rows are not the same collective: the ranks use several groups."""
    _, uncertainty_ns = clock_offsets(found)
    return uncertainty_ns <= max(MAX_UNCERTAINTY_NS, 0.2 * float(np.median(found.duration_ns)))


def _by_kind(view: RankView) -> dict[str, tuple[Int64, Int64]]:
    names = view.trace.names
    kind_of = [
        _collective_kind(name) if category(name) is Category.COMMUNICATION else "" for name in names
    ]
    kernels = view.device.take(view.device.kind == Kind.KERNEL)
    order = np.argsort(kernels.start_ns, kind="stable")
    rows: dict[str, list[int]] = defaultdict(list)
    for row in order:
        kind = kind_of[kernels.name[row]]
        if kind:
            rows[kind].append(int(row))
    return {
        kind: (kernels.start_ns[chosen], kernels.duration_ns[chosen])
        for kind, chosen in rows.items()
    }


def _collective_kind(name: str) -> str:
    match = _KIND.search(name)
    return match.group().lower() if match else "communication"


def _count(lists: dict[str, tuple[Int64, Int64]], kind: str) -> int:
    return len(lists[kind][0]) if kind in lists else 0
