"""Where the time of a rank went: compute, exposed communication and copies, idle by cause."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from functools import lru_cache, reduce
from operator import or_

import numpy as np
from numpy.typing import NDArray

from pilotlight.insights.kernel import (
    ANY_COMMUNICATION,
    Category,
    category,
    communication_kind,
)
from pilotlight.trace.distinct import places
from pilotlight.trace.interval import EMPTY, Intervals, union, window
from pilotlight.trace.trace import NONE, Int64, Kind, Spans, Trace

LAUNCH_LATENCY_NS = 10_000
DEVICE_KINDS = (Kind.KERNEL, Kind.MEMCPY, Kind.MEMSET)
_SYNC = re.compile(
    r"^(?:cuda|hip|cu)(?:Stream|Device|Event|Ctx)Synchronize|^(?:cuda|hip|cu)Memcpy(?!.*Async)"
)
MEMORY = re.compile(r"^(?:cuda|hip)(?:Free|Malloc|HostAlloc|FreeHost)(?!Async)")
LOADS = re.compile(r"data_?loader|^loader\b|^data$", re.IGNORECASE)
COMPILES = re.compile(
    r"dynamo.*compile|_compile\.|inductor.*compil|^compile\b|recompil|triton.*(?:compil|jit)"
    r"|xla.*compil|backend_compile|nvrtc",
    re.IGNORECASE,
)
SAVES = re.compile(
    r"torch\.save|dcp\.save|async_save|save_(?:checkpoint|state)|^checkpoint(?:$|[:\s])"
    r"|checkpoint(?:er)?\.save",
    re.IGNORECASE,
)
_PHASES = (LOADS, COMPILES, SAVES)


class Idle(str, Enum):
    """Why the device had nothing to do."""

    LOADER = "loader"
    GC = "garbage collection"
    COMPILE = "compilation"
    CHECKPOINT = "checkpoint"
    SYNC = "synchronisation"
    HOST = "host launches late"
    QUEUED = "launched, not started"


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
    """None for a trace without device activity."""
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
        place = places(messages.correlation, spans.correlation)
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


def idle_causes(
    trace: Trace, device: Spans, busy: Intervals, start_ns: int, end_ns: int
) -> dict[Idle, Intervals]:
    """Divides the idle time. A gap is the host's until the call that launched the next span has
    returned and taken effect, and the queue's from there until the span began; the host's part
    goes to what the host did. A gap that begins in a blocking call is that call's as a whole:
    without it the host would have run ahead."""
    idle = window(start_ns, end_ns) - busy
    if not len(idle):
        return dict.fromkeys(Idle, EMPTY)
    launch_ns = _launch_ends(trace, device)
    order = np.argsort(device.start_ns, kind="stable")
    place = np.searchsorted(device.start_ns[order], idle.end_ns, side="left")
    launched = launch_ns[order[place.clip(max=len(order) - 1)]]
    launched = np.where(place < len(order), launched, NONE)
    # Without its launch call a gap cannot be divided and counts as the host's.
    boundary = np.clip(launched + LAUNCH_LATENCY_NS, idle.start_ns, idle.end_ns)
    boundary = np.where(launched <= idle.start_ns, idle.start_ns, boundary)
    boundary = np.where(launched == NONE, idle.end_ns, boundary)
    host = union(idle.start_ns, boundary)
    loader = host & loader_waits(trace)
    collecting = (host - loader) & _union(trace.of_kind(Kind.GC))
    compiling = (host - loader - collecting) & host_spans(trace, COMPILES)
    saving = (host - loader - collecting - compiling) & host_spans(trace, SAVES)
    rest = idle - loader - collecting - compiling - saving
    after_sync = _starting_in(rest, sync_calls(trace))
    rest = rest - after_sync
    return {
        Idle.LOADER: loader,
        Idle.GC: collecting,
        Idle.COMPILE: compiling,
        Idle.CHECKPOINT: saving,
        Idle.SYNC: after_sync,
        Idle.HOST: rest & host,
        Idle.QUEUED: rest - host,
    }


def loader_waits(trace: Trace) -> Intervals:
    return host_spans(trace, LOADS)


def host_spans(trace: Trace, pattern: re.Pattern[str]) -> Intervals:
    """When the host was in spans of such names; `pattern` is LOADS, COMPILES or SAVES."""
    bit = 1 << _PHASES.index(pattern)
    phases = np.fromiter(map(_phases, trace.names), np.uint8, len(trace.names))
    wanted = phases & bit > 0
    if not wanted.any():
        return EMPTY
    host = trace.spans.is_kind(Kind.OPERATOR, Kind.ANNOTATION, Kind.OTHER)
    return _union(trace.spans.take(np.flatnonzero(wanted[trace.spans.name] & host)))


@lru_cache(maxsize=1 << 16)
def _phases(name: str) -> int:
    """A bit for each of `_PHASES` that a name tells of. Ranks of a job have the same names."""
    start = name[:200]
    low = start.lower()
    # One of these is in every name that a phase matches: plain search is ten times as fast, and
    # there can be half a million names.
    if not (
        "data" in low or "loader" in low or "compil" in low or "triton" in low or "nvrtc" in low
        or "save" in low or "checkpoint" in low
    ):  # fmt: skip
        return 0
    return sum(1 << i for i, pattern in enumerate(_PHASES) if pattern.search(start))


def sync_calls(trace: Trace) -> Spans:
    """Calls that block the host until the device has finished something."""
    mask = _named(trace, _blocks)[trace.spans.name]
    return trace.spans.take(mask & (trace.spans.kind == Kind.RUNTIME))


def draining_calls(trace: Trace) -> Spans:
    """Blocking calls, and those that take or give back memory: these wait for the device too."""

    def drains(name: str) -> bool:
        return _blocks(name) or MEMORY.match(name) is not None

    mask = _named(trace, drains)[trace.spans.name]
    return trace.spans.take(mask & (trace.spans.kind == Kind.RUNTIME))


@lru_cache(maxsize=1 << 16)
def _blocks(name: str) -> bool:
    return name.startswith(("cu", "hip")) and _SYNC.match(name) is not None


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
    medians = durations[first + counts // 2]
    rows = [
        KernelTime(trace.names[n], category(trace.names[n]).value, int(c), int(t), int(m))
        for n, c, t, m in zip(names, counts, totals, medians, strict=True)
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


def launch_rows(trace: Trace, device: Spans) -> tuple[Int64, Spans]:
    """For each device span the row of the call that launched it, or -1; and the calls."""
    calls = trace.of_kind(Kind.RUNTIME)
    calls = calls.take(calls.correlation != NONE)
    if not len(calls):
        return np.full(len(device), NONE, np.int64), calls
    order = np.argsort(calls.correlation, kind="stable")
    keys = calls.correlation[order]
    place = np.searchsorted(keys, device.correlation).clip(max=len(keys) - 1)
    rows = np.where(keys[place] == device.correlation, order[place], NONE)
    return rows.astype(np.int64), calls


def _launch_ends(trace: Trace, device: Spans) -> Int64:
    rows, calls = launch_rows(trace, device)
    if not len(calls):
        return np.full(len(device), NONE, np.int64)
    return np.where(rows == NONE, NONE, calls.end_ns[rows])


def _starting_in(gaps: Intervals, calls: Spans) -> Intervals:
    """The gaps whose begin lies within one of the calls: the host waited for the device to drain
    and could not run ahead."""
    blocked = _union(calls)
    if not len(gaps) or not len(blocked):
        return EMPTY
    place = np.searchsorted(blocked.start_ns, gaps.start_ns, side="right") - 1
    inside = (place >= 0) & (gaps.start_ns < blocked.end_ns[np.maximum(place, 0)])
    return Intervals(gaps.start_ns[inside], gaps.end_ns[inside])


def _union(spans: Spans) -> Intervals:
    return union(spans.start_ns, spans.end_ns)


def _named(trace: Trace, test: Callable[[str], bool]) -> NDArray[np.bool_]:
    return np.fromiter(map(test, trace.names), np.bool_, len(trace.names))
