"""Why a device had nothing to do."""

from __future__ import annotations

import re
from enum import Enum

import numpy as np

from pilotlight.insights.blocking import sync_calls
from pilotlight.insights.launched import launch_rows
from pilotlight.insights.name_signs import BEGINS_CAPTURE, COMPILES, LOADS, SAVES, named
from pilotlight.insights.rank_wait import host_waits, in_flight
from pilotlight.trace.interval import EMPTY, Intervals, union, window
from pilotlight.trace.trace import NONE, Bool, Int64, Kind, Spans, Trace

LAUNCH_LATENCY_NS = 10_000
_CAPTURE_ENDS = re.compile(r"^(?:cuda|hip|cu)(?:StreamEndCapture|GraphInstantiate)")


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
    goes to what the host did. A gap that begins in a blocking call, before the next launch, is that
    call's as a whole: without it the host would have run ahead."""
    idle = window(start_ns, end_ns) - busy
    if not len(idle):
        return dict.fromkeys(Idle, EMPTY)
    rows, calls = launch_rows(trace, device)
    order = np.argsort(device.start_ns, kind="stable")
    place = np.searchsorted(device.start_ns[order], idle.end_ns, side="left")
    row = np.where(place < len(order), rows[order[place.clip(max=len(order) - 1)]], NONE)
    launched = np.where(row == NONE, NONE, calls.end_ns[row]) if len(calls) else row
    # Without its launch call a gap cannot be divided and counts as the host's.
    boundary = np.clip(launched + LAUNCH_LATENCY_NS, idle.start_ns, idle.end_ns)
    boundary = np.where(launched <= idle.start_ns, idle.start_ns, boundary)
    boundary = np.where(launched == NONE, idle.end_ns, boundary)
    host = union(idle.start_ns, boundary)
    loader = host & loader_waits(trace)
    collecting = (host - loader) & _union(trace.of_kind(Kind.GC))
    compiling = (host - loader - collecting) & compilations(trace)
    saving = (host - loader - collecting - compiling) & host_spans(trace, SAVES)
    rest = idle - loader - collecting - compiling - saving
    waiting = rest & ((host & host_waits(trace, device)) | in_flight(trace))
    rest = rest - waiting
    unlaunched = union(
        idle.start_ns[boundary > idle.start_ns], idle.end_ns[boundary > idle.start_ns]
    )
    next_ns = np.where(row == NONE, idle.end_ns, calls.start_ns[row]) if len(calls) else idle.end_ns
    held = rest & unlaunched
    next_ns = next_ns[np.searchsorted(idle.start_ns, held.start_ns, side="right") - 1]
    after_sync = _starting_in(held, next_ns, sync_calls(trace, device, rows, calls))
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


def compilations(trace: Trace) -> Intervals:
    """When code was compiled, or launches were captured for a graph instead of being run."""
    return host_spans(trace, COMPILES) | captures(trace)


def captures(trace: Trace) -> Intervals:
    """From the begin of a capture until its graph was made, as far as the calls are there."""
    begins = _calls(trace, named(trace, BEGINS_CAPTURE))
    if not len(begins):
        return EMPTY
    ended = [_CAPTURE_ENDS.match(name) is not None for name in trace.names]
    ends = _calls(trace, np.array(ended, np.bool_))
    # Until the last end before the next begin.
    order = np.argsort(begins.start_ns, kind="stable")
    start_ns = begins.start_ns[order]
    closed = np.sort(ends.end_ns)
    next_ns = np.append(start_ns[1:], np.iinfo(np.int64).max)
    last = np.searchsorted(closed, next_ns, side="right") - 1
    until_ns = (
        np.where(last >= 0, closed[np.maximum(last, 0)], start_ns) if len(closed) else start_ns
    )
    return union(start_ns, np.maximum(until_ns, start_ns))


def host_spans(trace: Trace, pattern: re.Pattern[str]) -> Intervals:
    """When the host was in spans of such names; `pattern` is LOADS, COMPILES or SAVES."""
    wanted = named(trace, pattern)
    if not wanted.any():
        return EMPTY
    host = trace.spans.is_kind(Kind.OPERATOR, Kind.ANNOTATION, Kind.OTHER)
    return _holding(trace, trace.spans.take(np.flatnonzero(wanted[trace.spans.name] & host)))


def _holding(trace: Trace, spans: Spans) -> Intervals:
    """When these can have held the device up: those of a thread that calls no runtime only from the
    last launch in them on, for until then other threads went on beside it."""
    calling = np.zeros(len(trace.lanes), np.bool_)
    calling[trace.spans.lane[trace.spans.kind == Kind.RUNTIME]] = True
    beside = ~calling[spans.lane]
    if not beside.any() or not calling.any():
        return _union(spans)
    rows, calls = launch_rows(trace, trace.of_kind(Kind.KERNEL))
    launched_ns = np.sort(calls.end_ns[rows[rows != NONE]])
    place = np.searchsorted(launched_ns, spans.end_ns, side="right")
    last_ns = np.append(np.iinfo(np.int64).min, launched_ns)[place]
    return union(np.where(beside, spans.start_ns.clip(min=last_ns), spans.start_ns), spans.end_ns)


def _starting_in(gaps: Intervals, next_ns: Int64, calls: Spans) -> Intervals:
    """The gaps whose begin lies within one of the calls that returned before the next launch: the
    host waited for the device to drain and could not run ahead. One that returned later held no
    launch up: another thread made it."""
    if not len(gaps) or not len(calls):
        return EMPTY
    order = np.argsort(calls.end_ns, kind="stable")
    ends_ns = calls.end_ns[order]
    first = np.searchsorted(ends_ns, gaps.start_ns, side="right")
    last = np.searchsorted(ends_ns, next_ns, side="right")
    # The earliest begin of the calls that ended from the gap's begin to the launch.
    none = np.iinfo(np.int64).max
    starts_ns = np.append(calls.start_ns[order], none)
    ranges = np.column_stack((first, np.maximum(first, last))).ravel()
    earliest_ns = np.where(last > first, np.minimum.reduceat(starts_ns, ranges)[::2], none)
    inside = earliest_ns <= gaps.start_ns
    return Intervals(gaps.start_ns[inside], gaps.end_ns[inside])


def _calls(trace: Trace, wanted: Bool) -> Spans:
    """Calls of the runtime of such names."""
    if not wanted.any():
        return trace.spans.take(np.empty(0, np.int64))
    return trace.spans.take(wanted[trace.spans.name] & (trace.spans.kind == Kind.RUNTIME))


def _union(spans: Spans) -> Intervals:
    return union(spans.start_ns, spans.end_ns)
