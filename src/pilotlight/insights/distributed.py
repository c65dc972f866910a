"""Rules about ranks together: stragglers and exposed communication."""

from __future__ import annotations

import numpy as np

from pilotlight.insights.collective import Collectives, match_collectives
from pilotlight.insights.finding import Finding, Verdict, percent
from pilotlight.insights.job import Job, RankView
from pilotlight.trace.interval import Intervals, union, window
from pilotlight.trace.trace import Bool

EXPOSED_RATIO = 0.05
EXPOSED_HIGH_RATIO = 0.10
OVERLAP_SLOWDOWN_RATIO = 0.3
LATE_SHARE = 0.6
SKEW_RATIO = 0.015
MIN_STEPS = 3


def exposed_communication(job: Job) -> Verdict:
    """A25: communication that compute does not hide."""
    if not any(view.whole.communication_ns for view in job.ranks):
        return Verdict(missing="no communication kernels")
    matched = match_collectives(job)
    findings = []
    for column, view in enumerate(job.ranks):
        transfer = view.line.communication
        if matched is not None:
            # Waiting for a late rank is that rank's matter, not the network's.
            transfer = transfer - _waits(matched, column)
        start_ns, end_ns = view.steady_window()
        steady = window(start_ns, end_ns)
        all_ns = (transfer & steady).total_ns()
        exposed_ns = ((transfer & steady) - view.line.compute).total_ns()
        ratio = exposed_ns / (end_ns - start_ns)
        overlap = 1 - exposed_ns / all_ns if all_ns else 1.0
        if ratio <= EXPOSED_RATIO:
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
    weights = matched.wait_ns.mean(axis=1)
    if not weights.sum():
        return Verdict()
    late_weight = np.bincount(matched.last, weights, len(matched.ranks))
    worst = int(late_weight.argmax())
    share = float(late_weight[worst] / weights.sum())
    late = matched.last == worst
    ratio = float(
        np.median(
            [
                _exposed_wait_ratio(view, matched, late, column)
                for column, view in enumerate(job.ranks)
                if column != worst
            ]
        )
    )
    if share < LATE_SHARE or ratio <= SKEW_RATIO:
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
                    f"the others wait {percent(ratio)} of the step for it",
                ),
                fix="look at this rank's device, host and input; move it to another node",
                gain_low_ratio=ratio * 0.8,
                gain_high_ratio=ratio,
                confidence="high" if share > 0.8 else "medium",
            ),
        )
    )


def _waits(matched: Collectives, column: int) -> Intervals:
    start_ns = matched.start_ns[:, column]
    return union(start_ns, start_ns + matched.wait_ns[:, column])


def _exposed_wait_ratio(view: RankView, matched: Collectives, late: Bool, column: int) -> float:
    """The part of its time that a rank waits for the last one without computing meanwhile."""
    start_ns = matched.start_ns[late, column]
    waits = union(start_ns, start_ns + matched.wait_ns[late, column])
    return (waits - view.line.compute).total_ns() / view.whole.window_ns
