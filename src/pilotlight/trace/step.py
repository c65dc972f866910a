"""Finds the steps of a trace."""

from __future__ import annotations

import re
from dataclasses import fields, replace

import numpy as np

from pilotlight.trace.trace import NONE, Kind, Lane, Spans, Steps, Trace

_STEP = re.compile(
    r"(?:ProfilerStep#|\[?step[ _#:=]?|train_step[ _#:=]?|iteration[ _#:=]?)(\d+)\]?$", re.I
)
_HOST_KINDS = (Kind.ANNOTATION, Kind.OPERATOR, Kind.OTHER)


def steps_of(names: tuple[str, ...], spans: Spans) -> Steps:
    """Host annotations that number the steps, such as ProfilerStep#7."""
    numbers = np.full(len(names), -1, np.int64)
    for i, text in enumerate(names):
        # Most names end with a letter, as none of a step does.
        if text[-1:].isalpha() or len(text) >= 64:
            continue
        match = _STEP.match(text)
        if match and len(match.group(1)) < 18:
            numbers[i] = int(match.group(1))
    if not len(spans):
        return Steps(*(np.empty(0, np.int64) for _ in range(3)))
    host = spans.is_kind(*_HOST_KINDS)
    rows = np.flatnonzero((numbers[spans.name] >= 0) & host)
    order = rows[np.argsort(spans.start_ns[rows], kind="stable")]
    return Steps(numbers[spans.name[order]], spans.start_ns[order], spans.duration_ns[order])


def with_step_spans(trace: Trace) -> Trace:
    """With an annotation for each step, for formats that have no steps of their own; the same trace
    if its spans tell them."""
    steps = trace.steps
    if not len(steps) or len(steps_of(trace.names, trace.spans)):
        return trace
    numbers, name = np.unique(np.maximum(steps.number, 0), return_inverse=True)
    host = trace.spans.lane[trace.spans.is_kind(*_HOST_KINDS)]
    process = trace.lanes[host[0]].process if len(host) else "host"
    spans, count = trace.spans, len(steps)
    nothing = np.full(count, NONE, np.int64)
    added = Spans(
        steps.start_ns,
        steps.duration_ns,
        np.full(count, Kind.ANNOTATION, np.uint8),
        (name + len(trace.names)).astype(np.uint32),
        np.full(count, len(trace.lanes), np.uint32),
        nothing,
        nothing,
    )
    keys = (field.name for field in fields(Spans))
    columns = [np.concatenate((getattr(spans, key), getattr(added, key))) for key in keys]
    return replace(
        trace,
        names=(*trace.names, *(f"ProfilerStep#{number}" for number in numbers.tolist())),
        lanes=(*trace.lanes, Lane(process, "steps", "steps")),
        spans=Spans(*columns),
    )
