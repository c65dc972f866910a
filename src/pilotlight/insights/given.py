"""Since when a thread was at what it made a call for."""

from __future__ import annotations

import numpy as np

from pilotlight.trace.interval import union
from pilotlight.trace.trace import Int64, Kind, Spans, Trace

_HOST_KINDS = (Kind.OPERATOR, Kind.ANNOTATION, Kind.RUNTIME, Kind.PYTHON, Kind.OTHER)


def given_ns(trace: Trace, calls: Spans, waits: Spans) -> Int64:
    """For each call when the spans around it began on its lane, if only itself then when it did.
    Not looked for on lanes where no other waits for the device: nobody asks there."""
    given: Int64 = calls.start_ns.copy()
    on_host = trace.spans.is_kind(*_HOST_KINDS)
    for lane in np.unique(calls.lane):
        if not (waits.lane != lane).any():
            continue
        mine = calls.lane == lane
        spans = trace.spans.take(np.flatnonzero(on_host & (trace.spans.lane == lane)))
        around = union(spans.start_ns, spans.end_ns)
        if not len(around):
            continue
        own_ns = given[mine]
        place = (np.searchsorted(around.start_ns, own_ns, side="right") - 1).clip(min=0)
        # A call that takes no time may be in none of them.
        inside = (around.start_ns[place] <= own_ns) & (own_ns <= around.end_ns[place])
        given[mine] = np.where(inside, around.start_ns[place], own_ns)
    return given
