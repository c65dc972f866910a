"""Calls in which the host waits for the device."""

from __future__ import annotations

import re

import numpy as np

from pilotlight.insights.name_signs import AWAITS_RESULTS, BLOCKS, named
from pilotlight.trace.trace import NONE, Bool, Int64, Kind, Spans, Trace

_JAX_KINDS = (Kind.PYTHON, Kind.OPERATOR, Kind.ANNOTATION, Kind.OTHER)
MEMORY = re.compile(r"^(?:cuda|hip)(?:Free|Malloc|HostAlloc|FreeHost)(?!Async)")
# Pinned memory is copied to without the host.
_TO_HOST = re.compile(r"^Memcpy DtoH(?!.*Pinned)")
_FROM_HOST = re.compile(r"^Memcpy HtoD.*Pageable")


def sync_calls(trace: Trace, device: Spans, launch: Int64, calls: Spans) -> Spans:
    """Calls that block the host until the device has finished something: by their names, or
    because their copy had come when they returned, as with `.item()`."""
    mask = _blocking(trace, named(trace, BLOCKS))
    mask[call_rows(trace)[awaits_copy(trace, device, launch, calls)]] = True
    return trace.spans.take(mask)


def draining_calls(trace: Trace) -> Bool:
    """Whether a span is a call that blocks by its name, or takes or gives back memory: these wait
    for the device too."""
    memory = np.array([MEMORY.match(name) is not None for name in trace.names], np.bool_)
    return _blocking(trace, named(trace, BLOCKS) | memory)


def awaits_copy(trace: Trace, device: Spans, launch: Int64, calls: Spans) -> Bool:
    """Whether a call returned only after its copy to the host had ended."""
    copies = _copies(trace, device, launch, _TO_HOST)
    rows = launch[copies]
    mask = np.zeros(len(calls), np.bool_)
    mask[rows] = device.end_ns[copies] <= calls.end_ns[rows]
    return mask


def stages_copy(trace: Trace, device: Spans, launch: Int64, calls: Spans) -> Bool:
    """Whether a call was still at its copy from pageable memory when that had begun: the bytes go
    through a buffer, and the call returns with the last of them."""
    copies = _copies(trace, device, launch, _FROM_HOST)
    rows = launch[copies]
    mask = np.zeros(len(calls), np.bool_)
    mask[rows] = device.start_ns[copies] < calls.end_ns[rows]
    return mask


def _copies(trace: Trace, device: Spans, launch: Int64, pattern: re.Pattern[str]) -> Int64:
    """Rows of the device's copies of such names whose calls are known."""
    copies = np.flatnonzero((device.kind == Kind.MEMCPY) & (launch != NONE))
    name = device.name[copies]
    wanted = np.zeros(len(trace.names), np.bool_)
    # Not np.unique, which imports masked arrays: that takes longer than most traces.
    for number in np.flatnonzero(np.bincount(name)):
        wanted[number] = pattern.match(trace.names[number]) is not None
    return copies[wanted[name]]


def call_rows(trace: Trace) -> Int64:
    """Where in the trace the calls are that `launch_rows` gives."""
    spans = trace.spans
    return np.flatnonzero((spans.kind == Kind.RUNTIME) & (spans.correlation != NONE))


def _blocking(trace: Trace, of_runtime: Bool) -> Bool:
    """Whether a span is a call of such a name, or one in which JAX waits."""
    spans = trace.spans
    mask: Bool = of_runtime[spans.name] & (spans.kind == Kind.RUNTIME)
    awaits = named(trace, AWAITS_RESULTS)
    if awaits.any():
        mask |= awaits[spans.name] & spans.is_kind(*_JAX_KINDS)
    return mask
