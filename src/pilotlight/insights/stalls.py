"""Rules about what stops the host for a while: compilation and checkpoints."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from pilotlight.insights.finding import (
    Finding,
    Remedy,
    SpanReference,
    Verdict,
    longest,
    milliseconds,
    percent,
)
from pilotlight.insights.idle_time import Idle, captures, compilations, host_spans
from pilotlight.insights.job import Job
from pilotlight.insights.name_signs import SAVES
from pilotlight.trace.interval import Intervals

STALL_RATIO = 0.01
FEW_STEPS = 3


def recompilation(job: Job) -> Verdict:
    """A06: code is compiled after the first steps."""
    found = _stall(job, Idle.COMPILE)
    spans = {view.rank: compilations(view.trace) for view in job.ranks}
    if found is None or not any(len(each) for each in spans.values()):
        return Verdict(missing=_missing(spans, "compilation"))
    rank, ratio, steps = found
    if ratio < STALL_RATIO:
        return Verdict()
    view = next(view for view in job.ranks if view.rank == rank)
    captured = captures(view.trace).total_ns() > spans[rank].total_ns() / 2
    finding = Finding(
        rule="A06",
        cause="recompile",
        title="Graphs are captured" if captured else "Code is compiled in the middle of the run",
        rank=rank,
        place="capture of graphs" if captured else "compilation",
        evidence=(
            f"a device idles during {'captures' if captured else 'compilation'}: {percent(ratio)}"
            " of the step",
            f"in steps {steps}, after the first",
            _sizes(spans[rank]),
        ),
        fix="mark_dynamic or bucketed shapes, a higher cache limit, a compile cache on shared disk",
        gain_low_ratio=0.9 * ratio,
        gain_high_ratio=ratio,
        confidence="high",
        spans=_references(rank, "capture" if captured else "compilation", spans[rank]),
        remedies=(Remedy(parts=("compile",)),),
    )
    if job.step_count >= FEW_STEPS:
        return Verdict((finding,))
    start = replace(
        finding,
        title="The trace shows the start: "
        + ("graphs are captured" if captured else "compilation"),
        evidence=(
            finding.evidence[0],
            "too few steps to tell whether it comes again",
            _sizes(spans[rank]),
        ),
        fix="trace later steps; if it comes again there: bucketed shapes, a compile cache",
        gain_low_ratio=0.0,
        confidence="low",
        remedies=(),  # what a start takes is no part of a step
    )
    return Verdict((start,))


def checkpoints(job: Job) -> Verdict:
    """A37: the device idles while a checkpoint is written."""
    spans = {view.rank: host_spans(view.trace, SAVES) for view in job.ranks}
    found = _stall(job, Idle.CHECKPOINT)
    if found is None or not any(len(each) for each in spans.values()):
        return Verdict(missing=_missing(spans, "checkpoint"))
    rank, ratio, steps = found
    if ratio < STALL_RATIO:
        return Verdict()
    finding = Finding(
        rule="A37",
        cause="checkpoint",
        title="Checkpoints stop the job",
        rank=rank,
        place="checkpoint",
        evidence=(
            f"a device idles while checkpoints are written: {percent(ratio)} of the step",
            f"in steps {steps}",
            _sizes(spans[rank]),
        ),
        fix="asynchronous and sharded checkpoints; as rare as the square root of twice the writing"
        " time by the mean time between failures",
        gain_low_ratio=0.7 * ratio,
        gain_high_ratio=ratio,
        confidence="high",
        spans=_references(rank, "checkpoint", spans[rank]),
        remedies=(Remedy(parts=("checkpoint",)),),
    )
    return Verdict((finding,))


def _stall(job: Job, cause: Idle) -> tuple[int, float, str] | None:
    """Rank, part of the time, and the steps in which it happens; of steady steps only."""
    if not job.ranks:
        return None
    view, ratio = job.worst_idle(cause.value)
    steps = [str(row.step) for row in view.steady if row.idle_by_cause_ns[cause.value] and row.step]
    shown = ", ".join(steps[:8]) + (", ..." if len(steps) > 8 else "")
    return view.rank, ratio, shown or "not known"


def _missing(spans: dict[int, Intervals], what: str) -> str:
    return "" if any(len(each) for each in spans.values()) else f"no span of a {what}"


def _sizes(spans: Intervals) -> str:
    lengths = spans.lengths_ns()
    return f"{len(lengths)} in all, the longest {milliseconds(int(lengths.max(initial=0)))}"


def _references(rank: int, name: str, spans: Intervals) -> tuple[SpanReference, ...]:
    return longest(rank, name, spans.start_ns, np.asarray(spans.lengths_ns()))
