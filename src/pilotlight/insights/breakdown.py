"""Where the time of a rank went: compute, exposed communication and copies, idle by cause."""

from __future__ import annotations

from dataclasses import dataclass
from functools import reduce
from operator import or_

import numpy as np

from pilotlight.insights.idle_time import Idle, idle_causes
from pilotlight.insights.kernel import (
    ANY_COMMUNICATION,
    Category,
    category,
    communication_kind,
)
from pilotlight.trace.detail_row import detail_rows
from pilotlight.trace.interval import EMPTY, Intervals, union
from pilotlight.trace.trace import NONE, Int64, Kind, Spans, Trace

DEVICE_KINDS = (Kind.KERNEL, Kind.MEMCPY, Kind.MEMSET)


@dataclass(frozen=True)
class Timeline:
    """The device time of a rank as disjoint sets, and the idle time by cause."""

    start_ns: int
    end_ns: int
    compute: Intervals
    communication: Intervals
    copies: Intervals
    busy: Intervals
    idle: dict[Idle, Intervals]
    by_kind: dict[str, Intervals]  # of communication


@dataclass(frozen=True)
class Breakdown:
    """Nanoseconds of a window; compute, exposed parts and idle add up to the window, causes and
    kinds to what they divide. Of kinds at the same time the first by name counts."""

    rank: int
    step: int | None
    window_ns: int
    compute_ns: int
    exposed_communication_ns: int
    exposed_copy_ns: int
    idle_ns: int
    communication_ns: int
    copy_ns: int
    idle_by_cause_ns: dict[str, int]
    exposed_communication_by_kind_ns: dict[str, int]

    @property
    def overlap_ratio(self) -> float | None:
        """The part of communication that compute hides; None without communication."""
        if not self.communication_ns:
            return None
        return 1 - self.exposed_communication_ns / self.communication_ns


@dataclass(frozen=True)
class KernelTime:
    name: str
    category: str
    count: int
    total_ns: int
    median_ns: int


@dataclass(frozen=True)
class CategoryTime:
    category: str
    count: int
    total_ns: int


def device_spans(trace: Trace) -> Spans:
    return trace.of_kind(*DEVICE_KINDS)


def timeline(trace: Trace) -> Timeline | None:
    """None for a trace without device activity that took any time."""
    spans = device_spans(trace)
    if not len(spans):
        return None
    is_copy = spans.kind != Kind.KERNEL
    collective = np.zeros(len(trace.names), np.bool_)
    for number in np.flatnonzero(np.bincount(spans.name[~is_copy])):
        collective[number] = category(trace.names[number]) is Category.COMMUNICATION
    communicates = collective[spans.name]
    by_kind = _by_kind(trace, spans.take(communicates & ~is_copy))
    communication = reduce(or_, by_kind.values(), EMPTY)
    copies = _union(spans.take(is_copy))
    compute = _union(spans.take(~communicates & ~is_copy))
    busy = compute | communication | copies
    if not len(busy):
        return None
    start_ns, end_ns = int(busy.start_ns[0]), int(busy.end_ns[-1])
    idle = idle_causes(trace, spans, busy, *_traced(trace, start_ns, end_ns))
    return Timeline(start_ns, end_ns, compute, communication, copies, busy, idle, by_kind)


def _by_kind(trace: Trace, spans: Spans) -> dict[str, Intervals]:
    """When the device communicates, by kind: of the kernels' names, else of their messages."""
    kinds: dict[str, int] = {}
    kind_of = np.zeros(len(trace.names), np.int64)
    for number in np.flatnonzero(np.bincount(spans.name)):
        kind_of[number] = kinds.setdefault(communication_kind(trace.names[number]), len(kinds))
    kind = kind_of[spans.name]
    untold = kinds.get(ANY_COMMUNICATION)
    if untold is not None:
        messages = trace.detail.messages
        told = [kinds.setdefault(communication_kind(m.operation), len(kinds))
                for m in messages.kinds]  # fmt: skip
        place = detail_rows(messages, spans)
        known = np.flatnonzero((kind == untold) & (place != NONE))
        kind[known] = np.array(told, np.int64)[messages.kind[place[known]]]
    found = {text: _union(spans.take(kind == number)) for text, number in sorted(kinds.items())}
    return {text: intervals for text, intervals in found.items() if len(intervals)}


def _traced(trace: Trace, start_ns: int, end_ns: int) -> tuple[int, int]:
    """With the steps: they begin before their first kernel, and end after their last."""
    steps = trace.steps
    if not len(steps):
        return start_ns, end_ns
    ends_ns = steps.start_ns + steps.duration_ns
    return min(start_ns, int(steps.start_ns.min())), max(end_ns, int(ends_ns.max()))


def breakdown(trace: Trace, line: Timeline) -> Breakdown:
    """Of the whole trace, from the first to the last device activity."""
    return _rows(trace.rank, line, [None], np.array([line.start_ns]), np.array([line.end_ns]))[0]


def step_breakdowns(trace: Trace, line: Timeline) -> list[Breakdown]:
    """A row a step; the window is the step's on the host, for the device follows it closely."""
    steps = trace.steps
    numbers: list[int | None] = [int(number) for number in steps.number]
    return _rows(trace.rank, line, numbers, steps.start_ns, steps.start_ns + steps.duration_ns)


def _rows(
    rank: int, line: Timeline, numbers: list[int | None], start_ns: Int64, end_ns: Int64
) -> list[Breakdown]:
    exposed = line.communication - line.compute
    exposed_copy = line.copies - line.compute - line.communication

    def within(intervals: Intervals) -> list[int]:
        return [int(value) for value in intervals.within_ns(start_ns, end_ns)]

    idle = {cause.value: within(intervals) for cause, intervals in line.idle.items()}
    by_kind = {}
    rest = exposed
    for kind, intervals in line.by_kind.items():
        by_kind[kind] = within(rest & intervals)
        rest = rest - intervals
    columns = zip(
        numbers,
        (end_ns - start_ns).tolist(),
        within(line.compute),
        within(exposed),
        within(exposed_copy),
        within(line.busy),
        within(line.communication),
        within(line.copies),
        strict=True,
    )
    return [
        Breakdown(
            rank, number, span, compute, comm, copy, span - busy, all_comm, all_copy,
            {cause: values[i] for cause, values in idle.items()},
            {kind: values[i] for kind, values in by_kind.items()},
        )
        for i, (number, span, compute, comm, copy, busy, all_comm, all_copy) in enumerate(columns)
    ]  # fmt: skip


def kernel_times(trace: Trace) -> list[KernelTime]:
    """Kernels by name, the longest in sum first."""
    spans = trace.of_kind(Kind.KERNEL)
    if not len(spans):
        return []
    order = np.lexsort((spans.duration_ns, spans.name))
    names, first, counts = np.unique(spans.name[order], return_index=True, return_counts=True)
    durations = spans.duration_ns[order]
    totals = np.add.reduceat(durations, first)
    columns = names, counts, totals, durations[first + counts // 2]
    rows = [
        KernelTime(trace.names[n], category(trace.names[n]).value, c, t, m)
        for n, c, t, m in zip(*(each.tolist() for each in columns), strict=True)
    ]
    return sorted(rows, key=lambda row: -row.total_ns)


def category_times(trace: Trace) -> list[CategoryTime]:
    """Kernels by kind, the longest in sum first."""
    totals: dict[str, list[int]] = {}
    for row in kernel_times(trace):
        entry = totals.setdefault(row.category, [0, 0])
        entry[0] += row.count
        entry[1] += row.total_ns
    rows = [CategoryTime(name, count, total) for name, (count, total) in totals.items()]
    return sorted(rows, key=lambda row: -row.total_ns)


def _union(spans: Spans) -> Intervals:
    return union(spans.start_ns, spans.end_ns)
