"""Finds the steps of a trace."""

from __future__ import annotations

import re

import numpy as np

from pilotlight.trace.trace import Kind, Spans, Steps

_STEP = re.compile(
    r"(?:ProfilerStep#|\[?step[ _#:=]?|train_step[ _#:=]?|iteration[ _#:=]?)(\d+)\]?$", re.I
)
_HOST_KINDS = (Kind.ANNOTATION, Kind.OPERATOR, Kind.OTHER)


def steps_of(names: tuple[str, ...], spans: Spans) -> Steps:
    """Host annotations that number the steps, such as ProfilerStep#7."""
    numbers = np.full(len(names), -1, np.int64)
    for i, text in enumerate(names):
        match = _STEP.match(text) if len(text) < 64 else None
        if match and len(match.group(1)) < 18:
            numbers[i] = int(match.group(1))
    if not len(spans):
        return Steps(*(np.empty(0, np.int64) for _ in range(3)))
    host = spans.is_kind(*_HOST_KINDS)
    rows = np.flatnonzero((numbers[spans.name] >= 0) & host)
    order = rows[np.argsort(spans.start_ns[rows], kind="stable")]
    return Steps(numbers[spans.name[order]], spans.start_ns[order], spans.duration_ns[order])
