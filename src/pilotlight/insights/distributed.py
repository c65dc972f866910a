"""Rules about ranks together: stragglers and exposed communication."""

from __future__ import annotations

import numpy as np

from pilotlight.insights.collective import match_collectives
from pilotlight.insights.finding import Finding, Verdict, milliseconds, percent
from pilotlight.insights.job import Job

EXPOSED_RATIO = 0.05
EXPOSED_HIGH_RATIO = 0.10
OVERLAP_RATIO = 0.70
OVERLAP_SLOWDOWN_RATIO = 0.3
LATE_SHARE = 0.6
SKEW_RATIO = 0.05
MIN_STEPS = 3


def exposed_communication(job: Job) -> Verdict:
    """A25: communication that compute does not hide."""
    if not any(view.whole.communication_ns for view in job.ranks):
        return Verdict(missing="no communication kernels")
    findings = []
    for view in job.ranks:
        exposed_ns = sum(row.exposed_communication_ns for row in view.steady)
        all_ns = sum(row.communication_ns for row in view.steady)
        ratio = exposed_ns / view.steady_ns
        overlap = 1 - exposed_ns / all_ns if all_ns else 1.0
        if ratio <= EXPOSED_RATIO or overlap >= OVERLAP_RATIO:
            continue
        findings.append(
            Finding(
                rule="A25",
                cause="exposed_communication",
                title="Communication is not hidden behind compute",
                rank=view.rank,
                place="collectives",
                evidence=(
                    f"exposed communication: {percent(ratio)} of the step",
                    f"{percent(overlap)} of the communication overlaps with compute",
                ),
                fix="larger buckets, earlier prefetch, gradient accumulation, fewer ranks a group",
                gain_low_ratio=ratio * (1 - OVERLAP_SLOWDOWN_RATIO) / 2,
                gain_high_ratio=ratio,
                confidence="high" if ratio > EXPOSED_HIGH_RATIO else "medium",
            )
        )
    return Verdict(findings)


def straggler(job: Job) -> Verdict:
    """A26: one rank arrives last at most collectives and all others wait for it."""
    if len(job.ranks) < 2:
        return Verdict(missing="needs the traces of two ranks or more")
    if job.step_count < MIN_STEPS:
        return Verdict(missing=f"needs {MIN_STEPS} steps or more")
    matched = match_collectives(job)
    if matched is None:
        return Verdict(missing="the ranks do not run the same collectives in the same order")
    waits = matched.wait_ns
    total_ns = float(np.mean([view.whole.window_ns for view in job.ranks]))
    # What the others wait for the last beyond what they would wait for the last but one.
    others = np.sort(matched.duration_ns, axis=1)
    excess_ns = others[:, 1] - others[:, 0]
    cost = np.zeros(len(matched.ranks))
    np.add.at(cost, matched.last, excess_ns)
    worst = int(cost.argmax())
    late = matched.last == worst
    weights = waits.mean(axis=1)
    share = float(np.average(late, weights=weights)) if weights.sum() else 0.0
    low = float(cost[worst]) / total_ns
    typical = np.median(matched.duration_ns, axis=1) - others[:, 0]
    high = float(typical[late].sum()) / total_ns
    if share < LATE_SHARE or high <= SKEW_RATIO:
        return Verdict()
    rank = matched.ranks[worst]
    return Verdict(
        (
            Finding(
                rule="A26",
                cause="straggler",
                title="One rank holds up all others",
                rank=rank,
                place=f"rank {rank}",
                evidence=(
                    f"rank {rank} is last at {int(late.sum())} of {len(late)} collectives",
                    f"the others wait {milliseconds(float(typical[late].mean()))} for it each time",
                ),
                fix="look at this rank's device, host and input; move it to another node",
                gain_low_ratio=min(low, high),
                gain_high_ratio=high,
                confidence="high" if share > 0.8 else "medium",
            ),
        )
    )
