"""Rules about steps as such: they need no device activity."""

from __future__ import annotations

import numpy as np

from pilotlight.insights.change import Level, levels
from pilotlight.insights.finding import Finding, SpanReference, Verdict, milliseconds, percent
from pilotlight.insights.job import Job
from pilotlight.trace.interval import union
from pilotlight.trace.trace import Int64, Kind, Trace

MIN_STEPS = 20
SPIKE_RATIO = 2.0
LEVEL_RATIO = 0.03


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


def changed_level(job: Job) -> Verdict:
    """A34: from some step on all steps take longer, and not because the job computes more."""
    if not job.ranks or min(len(view.steady) for view in job.ranks) < MIN_STEPS:
        return Verdict(missing=f"needs {MIN_STEPS} steps or more of device activity")
    length = min(len(view.steady) for view in job.ranks)
    series = np.array([[row.window_ns for row in v.steady[:length]] for v in job.ranks], np.float64)
    found = levels(series.max(axis=0))
    before, after = min(found, key=lambda level: level.typical), found[-1]
    if after is before or after.typical < (1 + LEVEL_RATIO) * before.typical:
        return Verdict()
    part, grown_ns = _grown_part(job, before, after)
    rise_ns = after.typical - before.typical
    if part == "compute" or grown_ns < 0.3 * rise_ns:
        return Verdict()
    view = job.ranks[0]
    gain = rise_ns / after.typical
    number = view.steady[after.begin].step
    finding = Finding(
        rule="A34",
        cause="changed",
        title=f"The job became slower at step {number}",
        rank=view.rank,
        place=part,
        evidence=(
            f"{milliseconds(before.typical)} a step before, {milliseconds(after.typical)} since",
            f"what grew: {part}, by {milliseconds(grown_ns)} a step",
        ),
        fix="look at what else began then: neighbours on the network, storage, other jobs",
        gain_low_ratio=0.5 * gain,
        gain_high_ratio=gain,
        confidence="medium",
    )
    return Verdict((finding,))


def _grown_part(job: Job, before: Level, after: Level) -> tuple[str, float]:
    """The part of the step that grew most, on the mean of the ranks."""
    grown: dict[str, float] = {}
    for view in job.ranks:
        for level, sign in ((after, 1), (before, -1)):
            rows = view.steady[level.begin : level.end]
            weight = sign / len(rows) / len(job.ranks)
            for name, value in (
                ("compute", sum(row.compute_ns for row in rows)),
                ("exposed communication", sum(row.exposed_communication_ns for row in rows)),
                ("exposed copies", sum(row.exposed_copy_ns for row in rows)),
                *(
                    (f"idle: {c}", sum(r.idle_by_cause_ns[c] for r in rows))
                    for c in rows[0].idle_by_cause_ns
                ),
            ):
                grown[name] = grown.get(name, 0.0) + weight * value
    part = max(grown, key=lambda name: grown[name])
    return part, grown[part]


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
