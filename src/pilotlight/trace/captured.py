"""A capture folder as traces: whose they are, their steps, and one clock for all."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np

from pilotlight.capture.manifest import Captured, read_capture
from pilotlight.trace.trace import NONE, Steps, Trace


def captured_files(folder: Path) -> dict[Path, Captured]:
    """The traces that its manifest names; FormatError if it cannot be read."""
    processes = read_capture(folder).processes
    return {folder / process.file: process for process in processes if process.file is not None}


def placed(trace: Trace, captured: Captured) -> Trace:
    """The trace of that process, on the wall clock."""
    answered = captured.answered
    spans, counters = trace.spans, trace.counters
    if captured.offset_ns:
        spans = replace(spans, start_ns=spans.start_ns + captured.offset_ns)
        counters = replace(counters, time_ns=counters.time_ns + captured.offset_ns)
    steps = trace.steps
    if captured.steps and not len(steps):
        rows = [(step.number, step.start_ns, step.duration_ns) for step in captured.steps]
        steps = Steps(*(np.array(column, np.int64) for column in zip(*rows, strict=True)))
    elif captured.offset_ns:
        steps = replace(steps, start_ns=steps.start_ns + captured.offset_ns)
    rank = answered.rank if answered.rank is not None and trace.rank == NONE else trace.rank
    return replace(
        trace,
        rank=rank,
        world_size=trace.world_size or answered.world_size,
        spans=spans,
        counters=counters,
        steps=steps,
    )
