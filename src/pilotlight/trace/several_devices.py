"""Traces of one process that computes on several devices: each is a rank, or the work of one would
hide that another one waits."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import replace

import numpy as np

from pilotlight.trace.trace import NONE, Argument, Bool, Kind, Trace, no_counters

COMPUTES_RATIO = 0.1  # of the busiest device's kernel time
MAX_DEVICES = 128  # of one process: more are no GPUs
_ON_DEVICE = (Kind.KERNEL, Kind.MEMCPY, Kind.MEMSET, Kind.SYNC, Kind.DEVICE_ANNOTATION)


def each_device(trace: Trace, model_of: Callable[[str], tuple[str, ...]]) -> tuple[Trace, ...]:
    """All with the host's spans; the same trace if it is told to be of one rank, or has one device.
    Devices are what the kernels' lanes call their process; `model_of` such a name. What is on
    devices that hardly compute stays with the first."""
    used = [] if trace.rank != NONE else _computing(trace)
    if len(used) < 2:
        return (trace,)
    place = np.full(len(trace.lanes), NONE, np.int64)
    device = trace.of_kind(*_ON_DEVICE)
    for lane in np.flatnonzero(np.bincount(device.lane, minlength=len(trace.lanes))):
        name = trace.lanes[lane].process
        place[lane] = used.index(name) if name in used else 0
    of_span = place[trace.spans.lane]
    return tuple(
        replace(
            of_rows(trace, (of_span == NONE) | (of_span == number)),
            devices=model_of(name),
            counters=no_counters() if number else trace.counters,
            problems=() if number else trace.problems,
        )
        for number, name in enumerate(used)
    )


def of_rows(trace: Trace, rows: Bool) -> Trace:
    """Those spans, and what they say of themselves."""
    number = np.cumsum(rows) - 1
    arguments = {
        key: Argument(number[kept].astype(np.uint32), one.values[rows[one.rows]], one.texts)
        for key, one in trace.arguments.items()
        if len(kept := one.rows[rows[one.rows]])
    }
    return replace(trace, spans=trace.spans.take(rows), arguments=arguments)


def _computing(trace: Trace) -> list[str]:
    """The devices that run kernels for a part of the busiest one's time that counts."""
    kernels = trace.of_kind(Kind.KERNEL)
    by_lane = np.bincount(kernels.lane, kernels.duration_ns, len(trace.lanes))
    kernel_ns: Counter[str] = Counter()
    for lane in np.flatnonzero(by_lane):
        kernel_ns[trace.lanes[lane].process] += by_lane[lane]
    most = max(kernel_ns.values(), default=0.0)
    found = [name for name, ns in kernel_ns.items() if ns > COMPUTES_RATIO * most]
    found.sort(key=lambda name: (len(name), name))
    return found if len(found) <= MAX_DEVICES else []
