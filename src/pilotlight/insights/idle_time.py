"""Why a device had nothing to do."""

from __future__ import annotations

import re
from collections.abc import Callable
from enum import Enum
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from pilotlight.insights.launched import launch_ends
from pilotlight.insights.rank_wait import host_waits, in_flight
from pilotlight.trace.interval import EMPTY, Intervals, union, window
from pilotlight.trace.trace import NONE, Kind, Spans, Trace

LAUNCH_LATENCY_NS = 10_000
_SYNC = re.compile(
    r"^(?:cuda|hip|cu)(?:Stream|Device|Event|Ctx)Synchronize|^(?:cuda|hip|cu)Memcpy(?!.*Async)"
    r"|^synchronize(?:Stream)?$"
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
    COMMUNICATION = "communication wait"
    SYNC = "synchronisation"
    HOST = "host launches late"
    QUEUED = "launched, not started"


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
    launch_ns = launch_ends(trace, device)
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
    waiting = rest & ((host & host_waits(trace, device)) | in_flight(trace))
    rest = rest - waiting
    after_sync = _starting_in(rest, sync_calls(trace))
    rest = rest - after_sync
    return {
        Idle.LOADER: loader,
        Idle.GC: collecting,
        Idle.COMPILE: compiling,
        Idle.CHECKPOINT: saving,
        Idle.COMMUNICATION: waiting,
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
    return name.startswith(("cu", "hip", "sync")) and _SYNC.match(name) is not None


def _starting_in(gaps: Intervals, calls: Spans) -> Intervals:
    """The gaps whose begin lies within one of the calls: the host waited for the device to drain
    and could not run ahead."""
    blocked = _union(calls)
    if not len(gaps) or not len(blocked):
        return EMPTY
    place = np.searchsorted(blocked.start_ns, gaps.start_ns, side="right") - 1
    inside = (place >= 0) & (gaps.start_ns < blocked.end_ns[np.maximum(place, 0)])
    return Intervals(gaps.start_ns[inside], gaps.end_ns[inside])


def _named(trace: Trace, test: Callable[[str], bool]) -> NDArray[np.bool_]:
    return np.fromiter(map(test, trace.names), np.bool_, len(trace.names))


def _union(spans: Spans) -> Intervals:
    return union(spans.start_ns, spans.end_ns)
