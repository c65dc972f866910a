"""Rules about idle time that is not the host's."""

from __future__ import annotations

from pilotlight.insights.breakdown import Idle
from pilotlight.insights.finding import Finding, SpanReference, Verdict, milliseconds, percent
from pilotlight.insights.job import Job
from pilotlight.trace.trace import NONE

QUEUED_RATIO = 0.15


def queued_work(job: Job) -> Verdict:
    """A02q: the launch call has returned, the device idles, and the work does not start."""
    if not any((view.launch != NONE).any() for view in job.ranks):
        return Verdict(missing="no launch calls that belong to the kernels")
    findings = []
    for view in job.ranks:
        ratio = view.idle_ratio(Idle.QUEUED.value)
        gaps = view.line.idle[Idle.QUEUED]
        if ratio <= QUEUED_RATIO or not len(gaps):
            continue
        lengths = gaps.lengths_ns()
        longest = int(lengths.argmax())
        findings.append(
            Finding(
                rule="A02q",
                cause="queued",
                title="Launched work starts late",
                rank=view.rank,
                place="device queue",
                evidence=(
                    f"the device idles with work already launched: {percent(ratio)} of the step",
                    f"the longest such gap: {milliseconds(int(lengths[longest]))}",
                ),
                fix="look for waits between streams, graph uploads and other processes on the GPU",
                gain_low_ratio=0.0,
                gain_high_ratio=ratio,
                confidence="low",
                spans=(
                    SpanReference(
                        view.rank, "gap", int(gaps.start_ns[longest]), int(lengths[longest])
                    ),
                ),
            )
        )
    return Verdict(findings)
