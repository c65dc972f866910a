"""When a rank waits for others without a kernel of a collective: then the device is idle."""

from __future__ import annotations

import numpy as np

from pilotlight.insights.launched import launch_rows
from pilotlight.insights.name_signs import MAY_WAIT_FOR_RANKS, WAITS_FOR_RANKS, named
from pilotlight.trace.interval import EMPTY, Intervals, union
from pilotlight.trace.trace import NONE, Bool, Kind, Spans, Trace

# Shorter ones are what a call costs.
WAIT_FROM_NS = 50_000
# Operations of a group that a recording has, from begin to end, are on lanes of this process.
COLLECTIVE_LANE = "collectives"

_KINDS = (Kind.OPERATOR, Kind.ANNOTATION, Kind.OTHER, Kind.PYTHON)


def host_waits(trace: Trace, device: Spans) -> Intervals:
    """When the host is in a call that waits for other ranks."""
    surely = named(trace, WAITS_FOR_RANKS)
    told = surely | named(trace, MAY_WAIT_FOR_RANKS)
    if not told.any():
        return EMPTY
    chosen = told[trace.spans.name] & trace.spans.is_kind(*_KINDS) & ~_in_groups(trace)
    spans = trace.spans.take(np.flatnonzero(chosen & (trace.spans.duration_ns >= WAIT_FROM_NS)))
    waits = surely[spans.name] | _launches_nothing(trace, device, spans)
    return union(spans.start_ns[waits], spans.end_ns[waits])


def in_flight(trace: Trace) -> Intervals:
    """When an operation of a group had begun and not ended."""
    spans = trace.spans.take(np.flatnonzero(_in_groups(trace)))
    return union(spans.start_ns, spans.end_ns)


def _in_groups(trace: Trace) -> Bool:
    lanes = np.array([lane.process == COLLECTIVE_LANE for lane in trace.lanes], np.bool_)
    found: Bool = lanes[trace.spans.lane] if lanes.any() else np.zeros(len(trace.spans), np.bool_)
    return found


def _launches_nothing(trace: Trace, device: Spans, spans: Spans) -> Bool:
    """Never so where the trace does not tell what was launched when."""
    launch, calls = launch_rows(trace, device)
    if not len(calls):
        return np.zeros(len(spans), np.bool_)
    starts_ns = np.sort(calls.start_ns[launch[launch != NONE]])
    before = np.searchsorted(starts_ns, spans.start_ns)
    after = np.searchsorted(starts_ns, spans.end_ns)
    nothing: Bool = (before == after) & (len(starts_ns) > 0)
    return nothing
