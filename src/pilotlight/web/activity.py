"""What a span is to the eye: one colour for one meaning, on every page."""

from __future__ import annotations

from enum import IntEnum

import numpy as np

from pilotlight.insights.kernel import Category, category
from pilotlight.trace.trace import Kind, Trace, UInt8


class Activity(IntEnum):
    """The order is that of the colours in ui/src/look/colours.ts."""

    OTHER = 0
    COMPUTE = 1
    COMMUNICATION = 2
    COPY = 3
    HOST = 4
    INPUT = 5
    IDLE = 6
    OVERHEAD = 7


_OF_KIND = {
    Kind.OTHER: Activity.OTHER,
    Kind.OPERATOR: Activity.HOST,
    Kind.ANNOTATION: Activity.HOST,
    Kind.PYTHON: Activity.HOST,
    Kind.RUNTIME: Activity.OVERHEAD,
    Kind.KERNEL: Activity.COMPUTE,
    Kind.MEMCPY: Activity.COPY,
    Kind.MEMSET: Activity.COPY,
    Kind.SYNC: Activity.IDLE,
    Kind.DEVICE_ANNOTATION: Activity.OTHER,
    Kind.GC: Activity.OVERHEAD,
}


def activities(trace: Trace) -> UInt8:
    """One value a span."""
    table = np.full(256, Activity.OTHER, np.uint8)
    for kind, activity in _OF_KIND.items():
        table[kind] = activity
    found: UInt8 = table[trace.spans.kind]
    kernels = trace.spans.kind == Kind.KERNEL
    communicates = np.zeros(len(trace.names), np.bool_)
    for number in np.unique(trace.spans.name[kernels]).tolist():
        communicates[number] = category(trace.names[number]) is Category.COMMUNICATION
    found[kernels & communicates[trace.spans.name]] = Activity.COMMUNICATION
    loads = np.fromiter(map(_is_input, trace.names), np.bool_, len(trace.names))
    found[(found == Activity.HOST) & loads[trace.spans.name]] = Activity.INPUT
    # Reductions on the CPU have threads of their own.
    moves = np.fromiter(
        (name.startswith("gloo:") for name in trace.names), np.bool_, len(trace.names)
    )
    found[(found == Activity.HOST) & moves[trace.spans.name]] = Activity.COMMUNICATION
    return found


def _is_input(name: str) -> bool:
    start = name[:200].lower()
    return "dataloader" in start or "data_loader" in start
