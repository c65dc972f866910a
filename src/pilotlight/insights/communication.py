"""Communication taken apart: waiting for others and transfer, bandwidth, clocks of the ranks."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass

import numpy as np

from pilotlight.insights.bandwidth import bus_factor
from pilotlight.insights.collective import clock_offsets
from pilotlight.insights.job import Job


@dataclass(frozen=True)
class RankCommunication:
    """`waiting_ns`: in collectives before the last rank came (skew); `transfer_ns`: after; both
    also where no compute hides them."""

    rank: int
    collectives: int
    waiting_ns: int
    transfer_ns: int
    exposed_waiting_ns: int
    exposed_transfer_ns: int


@dataclass(frozen=True)
class GroupCommunication:
    """`bus_gb_per_s` is what the slowest link carries, after all ranks have come; None where the
    trace has no sizes."""

    group: str
    operation: str
    size: int
    count: int
    bytes: int
    median_transfer_ns: float
    median_skew_ns: float
    bus_gb_per_s: float | None


@dataclass(frozen=True)
class Clock:
    """How far the clock of a rank is ahead of the median, from the common ends of collectives, and
    how much the ends still differ after correction."""

    rank: int
    ahead_ns: float
    uncertainty_ns: float


def rank_communication(job: Job) -> list[RankCommunication]:
    matched = job.collectives
    if matched is None:
        return []
    rows = []
    for column, view in enumerate(job.ranks):
        waits, transfers = matched.waits(column), matched.transfers(column)
        rows.append(
            RankCommunication(
                view.rank,
                int((matched.column == column).sum()),
                waits.total_ns(),
                transfers.total_ns(),
                (waits - view.line.compute).total_ns(),
                (transfers - view.line.compute).total_ns(),
            )
        )
    return rows


def exposed_waits(job: Job, column: int, of: str) -> list[int | None]:
    """What a rank waited for others inside kernels of collectives that compute does not hide, in
    each of its `steps` or else as a whole; None where its collectives are not matched."""
    view = job.ranks[column]
    steps, line = view.trace.steps, view.line
    if of == "steps":
        start_ns, end_ns = steps.start_ns, steps.start_ns + steps.duration_ns
    else:
        start_ns, end_ns = np.array([line.start_ns]), np.array([line.end_ns])
    matched = job.collectives
    if matched is None or not (matched.column == column).any():
        return [None] * len(start_ns)
    waits = matched.waits(column) - line.compute
    return [int(value) for value in waits.within_ns(start_ns, end_ns)]


def group_communication(job: Job) -> list[GroupCommunication]:
    """By group and operation, the longest in sum first."""
    matched = job.collectives
    if matched is None:
        return []
    longest = np.maximum.reduceat(matched.wait_ns, matched.first[:-1])
    by_kind: dict[tuple[str, str, int], list[int]] = defaultdict(list)
    for number, what in enumerate(matched.what):
        by_kind[what.group, what.operation, what.size].append(number)
    rows = []
    for (group, operation, size), numbers in by_kind.items():
        transfer = matched.shortest_ns[numbers].astype(np.float64)
        sizes = np.array([matched.what[number].bytes for number in numbers], np.float64)
        rate = None
        if sizes.any() and transfer.all():
            rate = float(np.median(sizes * bus_factor(operation, size) / transfer))
        rows.append(
            GroupCommunication(
                group,
                operation,
                size,
                len(numbers),
                int(sizes.sum()),
                float(np.median(transfer)),
                float(np.median(longest[numbers])),
                rate,
            )
        )
    return sorted(rows, key=lambda row: -row.count * row.median_transfer_ns)


def clocks(job: Job) -> list[Clock]:
    matched = job.collectives
    if matched is None:
        return []
    offsets, uncertainty_ns = clock_offsets(matched)
    return [
        Clock(rank, float(offset), uncertainty_ns)
        for rank, offset in zip(matched.ranks, offsets, strict=True)
    ]
