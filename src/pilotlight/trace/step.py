"""Finds the steps of a trace."""

from __future__ import annotations

import re
from dataclasses import fields, replace

import numpy as np

from pilotlight.trace.trace import (
    NONE,
    Argument,
    Int64,
    Kind,
    Lane,
    Spans,
    Steps,
    Trace,
    no_steps,
)

# `iteration 3`, `train_step_3`, `global_step=3`, `epoch 1 step 3`, `Step: 3/100`.
_STEP = re.compile(
    r"(?:(?P<profiler>ProfilerStep#)"
    r"|(?:epoch[ _#:=]{0,2}\d+[ _,/:-]{1,3})?\[?(?:(?:global|train|training)[ _.]?)?"
    r"(?:step|iteration|iter)[ _#:=]{0,2})(?P<number>\d+)(?:/\d+)?\]?$",
    re.I,
)
STEP_NUMBER = "step_num"  # of jax.profiler.StepTraceAnnotation
_HOST_KINDS = (Kind.ANNOTATION, Kind.OPERATOR, Kind.OTHER)


def steps_of(names: tuple[str, ...], spans: Spans) -> Steps:
    """Host annotations that number the steps: the profiler's own where it has them, else those that
    lie in no other, for a step can have numbered parts."""
    numbers = np.full(len(names), -1, np.int64)
    profilers = np.zeros(len(names), np.bool_)
    for i, text in enumerate(names):
        # Most names end with a letter, as none of a step does.
        if text[-1:].isalpha() or len(text) >= 64:
            continue
        match = _STEP.match(text)
        if match and len(match["number"]) < 18:
            numbers[i] = int(match["number"])
            profilers[i] = match["profiler"] is not None
    if not len(spans):
        return Steps(*(np.empty(0, np.int64) for _ in range(3)))
    host = spans.is_kind(*_HOST_KINDS)
    rows = np.flatnonzero((numbers[spans.name] >= 0) & host)
    own = rows[profilers[spans.name[rows]]]
    rows = own if len(own) else rows
    order = _outermost(spans, rows[np.lexsort((-spans.duration_ns[rows], spans.start_ns[rows]))])
    return Steps(numbers[spans.name[order]], spans.start_ns[order], spans.duration_ns[order])


def numbered_steps(
    spans: Spans,
    lanes: tuple[Lane, ...],
    processes: dict[str, str],
    arguments: dict[str, Argument],
) -> Steps:
    """Those that JAX annotates: in traces of its own the host's spans say the number besides."""
    told = arguments.get(STEP_NUMBER)
    if told is None:
        return no_steps()
    of_host = [not processes.get(lane.process, "").startswith("/device:") for lane in lanes]
    chosen = np.array(of_host, np.bool_)[spans.lane[told.rows]] & (told.values >= 0)
    rows, numbers = told.rows[chosen].astype(np.int64), told.dense(len(spans))
    order = _outermost(spans, rows[np.lexsort((-spans.duration_ns[rows], spans.start_ns[rows]))])
    return Steps(numbers[order], spans.start_ns[order], spans.duration_ns[order])


def lasting(steps: Steps) -> Steps:
    """Without those that take no time: nothing can be a part of them."""
    kept = steps.duration_ns > 0
    if kept.all():
        return steps
    return Steps(steps.number[kept], steps.start_ns[kept], steps.duration_ns[kept])


def _outermost(spans: Spans, order: Int64) -> Int64:
    """Without the spans that lie within an earlier one; `order`: by their begin, longest first."""
    if not len(order):
        return order
    ends_ns = spans.end_ns[order]
    before_ns = np.maximum.accumulate(np.append(np.iinfo(np.int64).min, ends_ns[:-1]))
    return order[ends_ns > before_ns]


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
