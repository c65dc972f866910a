"""The lanes that sum up a rank: what the device did and why it did nothing; the critical path."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from pilotlight.insights.breakdown import Timeline
from pilotlight.insights.recorded_graph import Role
from pilotlight.trace.interval import Intervals
from pilotlight.trace.trace import NONE, Int64, Kind, Lane, Spans, Trace, UInt8
from pilotlight.web.activity import Activity, activities
from pilotlight.web.layout import PATH, SUMMARY
from pilotlight.web.path import ACTIVITIES, PathSpans


def with_summary(
    trace: Trace, line: Timeline | None, path: PathSpans | None
) -> tuple[Trace, UInt8]:
    """The trace with those lanes, and the activity of every span."""
    found = activities(trace)
    if line is not None:
        trace, found = _with_line(trace, found, line)
    if path is not None:
        trace, found = _with_path(trace, found, path)
    return trace, found


def _with_line(trace: Trace, found: UInt8, line: Timeline) -> tuple[Trace, UInt8]:
    parts: list[tuple[str, Activity, Intervals]] = [
        ("compute", Activity.COMPUTE, line.compute),
        ("exposed communication", Activity.COMMUNICATION, line.communication - line.compute),
        ("exposed copy", Activity.COPY, line.copies - line.compute - line.communication),
    ]
    parts += [
        (f"idle: {cause.value}", Activity.INPUT if "loader" in cause.value else Activity.IDLE, gaps)
        for cause, gaps in line.idle.items()
    ]
    starts = np.concatenate([part.start_ns for _, _, part in parts])
    ends = np.concatenate([part.end_ns for _, _, part in parts])
    sizes = [len(part) for _, _, part in parts]
    names = np.repeat(np.arange(len(parts)), sizes)
    values = np.repeat(np.array([activity for _, activity, _ in parts], np.uint8), sizes)
    texts = tuple(name for name, _, _ in parts)
    return _with_lane(trace, SUMMARY, texts, starts, ends - starts, names), np.concatenate(
        (found, values)
    )


def _with_path(trace: Trace, found: UInt8, path: PathSpans) -> tuple[Trace, UInt8]:
    table = np.zeros(len(Role), np.uint8)
    for role, activity in ACTIVITIES.items():
        table[role] = activity
    whole = _with_lane(trace, PATH, path.names, path.start_ns, path.duration_ns, path.name)
    return whole, np.concatenate((found, table[path.role]))


def _with_lane(
    trace: Trace,
    lane: str,
    names: tuple[str, ...],
    start_ns: Int64,
    duration_ns: Int64,
    name: Int64,
) -> Trace:
    none = np.full(start_ns.size, NONE, np.int64)
    added = Spans(
        start_ns,
        duration_ns,
        np.full(start_ns.size, Kind.OTHER, np.uint8),
        (name + len(trace.names)).astype(np.uint32),
        np.full(start_ns.size, len(trace.lanes), np.uint32),
        none,
        none,
    )
    return replace(
        trace,
        names=(*trace.names, *names),
        lanes=(*trace.lanes, Lane("", "", lane)),
        spans=joined(trace.spans, added),
    )


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
