"""Rules about steps as such: they need no device activity."""

from __future__ import annotations

import numpy as np

from pilotlight.insights.finding import Finding, SpanReference, Verdict, milliseconds, percent
from pilotlight.insights.job import Job
from pilotlight.trace.interval import union
from pilotlight.trace.trace import Int64, Kind, Trace

MIN_STEPS = 20
SPIKE_RATIO = 2.0


def step_spikes(job: Job) -> Verdict:
    """A07: some steps take more than twice as long as the others."""
    traces = [trace for trace in job.traces if len(trace.steps) >= MIN_STEPS]
    if not traces:
        return Verdict(missing=f"needs {MIN_STEPS} steps or more")
    findings = []
    for trace in traces:
        lengths = trace.steps.duration_ns[1:]
        usual = float(np.median(lengths))
        slow = np.flatnonzero(lengths > SPIKE_RATIO * usual)
        if not len(slow) or len(slow) > len(lengths) / 4:
            continue
        excess_ns = float((lengths[slow] - usual).sum())
        gain = excess_ns / float(lengths.sum())
        findings.append(
            Finding(
                rule="A07",
                cause="spikes",
                title="Some steps take much longer than the others",
                rank=trace.rank,
                place=_rhythm(slow),
                evidence=(
                    f"{len(slow)} of {len(lengths)} steps take more than twice the usual"
                    f" {milliseconds(usual)}, the longest {milliseconds(int(lengths.max()))}",
                    f"garbage collection in them: {percent(_gc_ratio(trace, slow + 1))}",
                ),
                fix="make what happens in them asynchronous or rarer: logging, evaluation,"
                " checkpoints, garbage collection",
                gain_low_ratio=gain / 2,
                gain_high_ratio=gain,
                confidence="medium",
                spans=tuple(
                    SpanReference(
                        trace.rank,
                        f"step {trace.steps.number[i]}",
                        int(trace.steps.start_ns[i]),
                        int(trace.steps.duration_ns[i]),
                    )
                    for i in (slow + 1)[:3]
                ),
            )
        )
    return Verdict(findings)


def _rhythm(slow: Int64) -> str:
    apart = np.diff(slow)
    if len(apart) >= 2 and (apart == apart[0]).all():
        return f"every {apart[0]} steps"
    return "irregular"


def _gc_ratio(trace: Trace, rows: Int64) -> float:
    pauses = trace.of_kind(Kind.GC)
    start_ns = trace.steps.start_ns[rows]
    length_ns = trace.steps.duration_ns[rows]
    inside = union(pauses.start_ns, pauses.end_ns).within_ns(start_ns, start_ns + length_ns)
    return float(inside.sum()) / float(length_ns.sum())
