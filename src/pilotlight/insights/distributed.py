"""Rules about ranks together: stragglers and exposed communication."""

from __future__ import annotations

import numpy as np

from pilotlight.insights.collective import Collectives
from pilotlight.insights.finding import OWN_ROLES, Finding, Remedy, Verdict, percent
from pilotlight.insights.idle_time import Idle
from pilotlight.insights.job import Job
from pilotlight.insights.stage import like_its_peers, stages_of
from pilotlight.trace.interval import window
from pilotlight.trace.trace import Float64

EXPOSED_RATIO = 0.05
EXPOSED_HIGH_RATIO = 0.10
OVERLAP_SLOWDOWN_RATIO = 0.3
LATE_SHARE = 0.6
SKEW_RATIO = 0.015
MIN_STEPS = 3
SPREADS = 3.0
FEW_OTHERS = 2
_WAIT = Idle.COMMUNICATION
_NAMED = tuple(c.value for c in (Idle.LOADER, Idle.GC, Idle.COMPILE, Idle.CHECKPOINT))


def exposed_communication(job: Job) -> Verdict:
    """A25: communication that compute does not hide."""
    if not any(v.whole.communication_ns or len(v.line.idle[_WAIT]) for v in job.ranks):
        return Verdict(missing="no communication kernels")
    matched = job.collectives
    findings = []
    for column, view in enumerate(job.ranks):
        # Waiting for a late rank is that rank's matter, not the network's.
        transfer = view.line.communication if matched is None else matched.transfers(column)
        start_ns, end_ns = view.steady_window()
        steady = window(start_ns, end_ns)
        all_ns = (transfer & steady).total_ns()
        exposed_ns = ((transfer & steady) - view.line.compute).total_ns()
        waited_ns = (view.line.idle[_WAIT] & steady).total_ns()
        ratio = (exposed_ns + waited_ns) / (end_ns - start_ns)
        overlap = 1 - exposed_ns / all_ns if all_ns else 1.0
        if ratio <= EXPOSED_RATIO:
            continue
        # Of one rank alone nobody can tell waiting for the others from transfer.
        certain = matched is not None and ratio > EXPOSED_HIGH_RATIO
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
                    *_waits_of_the_host(waited_ns / (end_ns - start_ns)),
                    *_unmatched(job),
                ),
                fix="larger buckets, earlier prefetch, gradient accumulation, fewer ranks a group",
                gain_low_ratio=ratio * (1 - OVERLAP_SLOWDOWN_RATIO),
                gain_high_ratio=ratio,
                confidence="high" if certain else "medium",
                remedies=(Remedy(roles=(("collective", 0.0),), parts=("comm-wait",)),),
            )
        )
    return Verdict(findings)


def _unmatched(job: Job) -> tuple[str, ...]:
    if job.collectives is not None:
        return ()
    if len(job.ranks) > 1:
        return ("the ranks' collectives cannot be matched: waiting for a late rank is in it",)
    return ("only one rank was traced: waiting for a late rank is in it; trace them all",)


def _waits_of_the_host(ratio: float) -> tuple[str, ...]:
    if not ratio:
        return ()
    return (f"the device idles while the host waits for other ranks: {percent(ratio)} of the step",)


def straggler(job: Job) -> Verdict:
    """A26: the others wait for one rank, and it waits for nobody."""
    if len(job.ranks) < 2:
        return Verdict(missing="needs the traces of two ranks or more")
    if job.step_count < MIN_STEPS:
        return Verdict(missing=f"needs {MIN_STEPS} steps or more")
    matched = job.collectives
    if matched is None:
        return Verdict(missing="the ranks do not run the same collectives in the same order")
    waits = step_waits(job, matched)
    # Lateness that other rules name is not this one's: waits for a rank in its loader count with
    # the loader.
    unnamed = waits + _named_idle(job, waits.shape[1])
    deficits = _lasting(_deficits(job, matched, unnamed))
    if not waits.sum():
        return Verdict()
    means = deficits.mean(axis=1)
    worst = int(means.argmax())
    most = deficits.max(axis=0)
    late = deficits.argmax(axis=0) == worst
    share = float(most[late].sum() / max(1.0, most.sum()))
    ratio = float(deficits[worst].sum()) / job.ranks[worst].steady_ns
    others = np.delete(_lasting(_deficits(job, matched, unnamed, left_out=worst)), worst, axis=0)
    if means[worst] < SPREADS * _spread(deficits[worst], others):
        return Verdict()
    if share < LATE_SHARE or ratio <= SKEW_RATIO:
        return Verdict()
    rank = matched.ranks[worst]
    late = int((matched.last == worst).sum())
    return Verdict(
        (
            Finding(
                rule="A26",
                cause="straggler",
                title="One rank holds up all others",
                rank=rank,
                place=f"rank {rank}",
                evidence=(
                    f"rank {rank} is last at {late} of"
                    f" {int((matched.number[matched.column == worst]).size)} collectives",
                    f"the others wait {percent(ratio)} of the step more than it does",
                ),
                fix="look at this rank's device, host and input; move it to another node",
                gain_low_ratio=ratio * 0.8,
                gain_high_ratio=ratio,
                confidence="high" if share > 0.8 else "medium",
                remedies=like_its_peers(job, worst, OWN_ROLES),
            ),
        )
    )


def waiting_deficit(job: Job, column: int) -> float | None:
    """The part of the time that its peers wait more than this rank; None if not known."""
    if job.collectives is None or len(job.ranks) < 2:
        return None
    deficits = _deficits(job, job.collectives, step_waits(job, job.collectives))
    return float(deficits[column].sum()) / job.ranks[column].steady_ns


def _deficits(
    job: Job, matched: Collectives, waits: Float64, left_out: int | None = None
) -> Float64:
    """How much less each rank waits than its peers, by step; the one left out is no peer. Stages of
    a pipeline wait differently by design: there the peers are those with the same part of the
    model."""
    found = np.zeros_like(waits)
    stages = stages_of(job, matched)
    peers_of = {column: columns for columns in stages for column in columns}
    for column in range(len(waits)):
        apart = (column, left_out)
        peers = [other for other in peers_of.get(column, range(len(waits))) if other not in apart]
        if not peers:
            peers = [other for other in range(len(waits)) if other not in apart]
        if peers:
            found[column] = np.median(waits[peers], axis=0) - waits[column]
    return found


def _lasting(deficits: Float64) -> Float64:
    """The greatest value of each rank lowered to its second: what is in a single step is a spike,
    or a wait that the profiler lost."""
    if deficits.shape[1] <= MIN_STEPS:
        return deficits
    second = np.sort(deficits, axis=1)[:, -2:-1]
    lowered: Float64 = np.minimum(deficits, second)
    return lowered


def _named_idle(job: Job, length: int) -> Float64:
    """The idle time of each rank in each steady step for a reason that another rule names."""
    return np.array(
        [
            [sum(row.idle_by_cause_ns[cause] for cause in _NAMED) for row in view.steady[:length]]
            for view in job.ranks
        ],
        np.float64,
    )


def _spread(worst: Float64, others: Float64) -> float:
    """By how much ranks differ by chance: the others among each other. Of one or two others that
    says little: there also how the worst differs from step to step."""
    among = 1.4826 * float(np.median(np.abs(others.mean(axis=1))))
    if len(others) > FEW_OTHERS:
        return among
    by_step = float(np.median(np.abs(worst - np.median(worst))) / np.sqrt(len(worst)))
    return max(among, by_step)


def step_waits(job: Job, matched: Collectives) -> Float64:
    """What each rank (row) waited in each steady step (column) without computing meanwhile."""
    length = min(len(view.steady) for view in job.ranks)
    rows = []
    for column, view in enumerate(job.ranks):
        waits = matched.waits(column) - view.line.compute
        start_ns, end_ns = view.steady_bounds()
        rows.append(waits.within_ns(start_ns[:length], end_ns[:length]))
    return np.array(rows, np.float64)
