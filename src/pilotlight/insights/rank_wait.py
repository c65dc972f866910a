"""When a rank waits for others without a kernel of a collective: then the device is idle."""

from __future__ import annotations

import re
from functools import lru_cache

import numpy as np

from pilotlight.insights.launched import launch_rows
from pilotlight.insights.name_words import start_with
from pilotlight.trace.interval import EMPTY, Intervals, union
from pilotlight.trace.trace import NONE, Bool, Kind, Spans, Trace

# Shorter ones are what a call costs.
WAIT_FROM_NS = 50_000
# Operations of a group that a recording has, from begin to end, are on lanes of this process.
COLLECTIVE_LANE = "collectives"

# These block, on the host, until other ranks have come.
_BLOCKS = re.compile(
    r"^gloo:|^mpi[:_]|barrier|rendezvous|^ncclComm(?:Init|Split)|distributed_c10d\.py\(\d+\): "
    r"\w+_object|_distributed_c10d\.\w*(?:Work|Store)\b",
    re.IGNORECASE,
)
# These only launch, unless nothing was launched in them: then they are of the host.
_MAY_BLOCK = re.compile(r"^nccl:|^c10d::|^record_param_comms$|^communication$", re.IGNORECASE)
# One of these is in every name that either matches.
_WORDS = (
    "gloo:", "mpi", "barrier", "rendezvous", "nccl", "c10d", "record_param_comms", "communication",
)  # fmt: skip
_KINDS = (Kind.OPERATOR, Kind.ANNOTATION, Kind.OTHER, Kind.PYTHON)


def host_waits(trace: Trace, device: Spans) -> Intervals:
    """When the host is in a call that waits for other ranks."""
    how = np.fromiter(map(_how, trace.names), np.uint8, len(trace.names))
    if not how.any():
        return EMPTY
    chosen = (how[trace.spans.name] > 0) & trace.spans.is_kind(*_KINDS) & ~_in_groups(trace)
    spans = trace.spans.take(np.flatnonzero(chosen & (trace.spans.duration_ns >= WAIT_FROM_NS)))
    waits = (how[spans.name] == 1) | _launches_nothing(trace, device, spans)
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


@lru_cache(maxsize=1 << 16)
def _how(name: str) -> int:
    """1: waits for other ranks; 2: may; 0: does not."""
    start = start_with(name, _WORDS)
    if not start:
        return 0
    if _BLOCKS.search(start):
        return 1
    return 2 if _MAY_BLOCK.search(start) else 0
