"""The lane that sums up a rank: what the device did, and why it did nothing."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from pilotlight.insights.breakdown import Timeline
from pilotlight.trace.interval import Intervals
from pilotlight.trace.trace import NONE, Kind, Lane, Spans, Trace, UInt8
from pilotlight.web.activity import Activity, activities
from pilotlight.web.layout import SUMMARY


def with_summary(trace: Trace, line: Timeline | None) -> tuple[Trace, UInt8]:
    """The trace with that lane, and the activity of every span."""
    found = activities(trace)
    if line is None:
        return trace, found
    parts: list[tuple[str, Activity, Intervals]] = [
        ("compute", Activity.COMPUTE, line.compute),
        ("exposed communication", Activity.COMMUNICATION, line.communication - line.compute),
        ("exposed copy", Activity.COPY, line.copies - line.compute - line.communication),
    ]
    parts += [(f"idle: {cause.value}", Activity.IDLE, gaps) for cause, gaps in line.idle.items()]
    starts = np.concatenate([part.start_ns for _, _, part in parts])
    ends = np.concatenate([part.end_ns for _, _, part in parts])
    sizes = [len(part) for _, _, part in parts]
    none = np.full(starts.size, NONE, np.int64)
    added = Spans(
        starts,
        ends - starts,
        np.full(starts.size, Kind.OTHER, np.uint8),
        np.repeat(np.arange(len(parts)) + len(trace.names), sizes).astype(np.uint32),
        np.full(starts.size, len(trace.lanes), np.uint32),
        none,
        none,
    )
    whole = replace(
        trace,
        names=(*trace.names, *(name for name, _, _ in parts)),
        lanes=(*trace.lanes, Lane("", "", SUMMARY)),
        spans=joined(trace.spans, added),
    )
    values = np.repeat(np.array([activity for _, activity, _ in parts], np.uint8), sizes)
    return whole, np.concatenate((found, values))


def joined(first: Spans, second: Spans) -> Spans:
    return Spans(
        np.concatenate((first.start_ns, second.start_ns)),
        np.concatenate((first.duration_ns, second.duration_ns)),
        np.concatenate((first.kind, second.kind)),
        np.concatenate((first.name, second.name)),
        np.concatenate((first.lane, second.lane)),
        np.concatenate((first.correlation, second.correlation)),
        np.concatenate((first.bytes, second.bytes)),
    )
