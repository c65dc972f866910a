"""Plays a job: per rank a host thread and streams, and collectives that all leave together."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from pilotlight.simulate.effect import Effects
from pilotlight.simulate.fault import Fault
from pilotlight.simulate.job import JobShape
from pilotlight.simulate.player import Player
from pilotlight.trace.trace import Trace

SKEW_NS = 3_000_000
DROPPED_RATIO = 0.004


def simulate(shape: JobShape, faults: Sequence[Fault] = ()) -> tuple[Trace, ...]:
    """The traces of all ranks; the same seed gives the same job with and without a fault."""
    effects = Effects(shape, faults)
    traces = Player(shape, effects).play()
    random = np.random.default_rng([shape.seed, 11])
    if "clock_skew" in effects:
        traces = tuple(_shifted(trace, int(random.integers(0, SKEW_NS))) for trace in traces)
    if "dropped_events" in effects:
        traces = tuple(_thinned(trace, random) for trace in traces)
    return traces


def step_us(traces: Sequence[Trace]) -> float:
    """Mean step of the steady part, which truth is computed from."""
    skip = 1 if len(traces[0].steps) >= 3 else 0
    spans = [
        t.steps.start_ns[-1] + t.steps.duration_ns[-1] - t.steps.start_ns[skip] for t in traces
    ]
    return float(max(spans)) / (len(traces[0].steps) - skip) / 1000


def _shifted(trace: Trace, by_ns: int) -> Trace:
    return replace(
        trace,
        spans=replace(trace.spans, start_ns=trace.spans.start_ns + by_ns),
        steps=replace(trace.steps, start_ns=trace.steps.start_ns + by_ns),
        counters=replace(trace.counters, time_ns=trace.counters.time_ns + by_ns),
    )


def _thinned(trace: Trace, random: np.random.Generator) -> Trace:
    """A profiler that lost some events, but no step."""
    steps = np.array([name.startswith("ProfilerStep") for name in trace.names])
    kept = (random.random(len(trace.spans)) >= DROPPED_RATIO) | steps[trace.spans.name]
    return replace(trace, spans=trace.spans.take(kept))
