"""Ranks that do the same work in the same step, compared with each other."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from pilotlight.insights.finding import Finding, Verdict, milliseconds, percent
from pilotlight.insights.online.window import (
    CGROUP_THROTTLED_RATIO,
    CHECKPOINT,
    COMPILE,
    COMPUTE,
    GC,
    LOADER,
    RUN_QUEUE_RATIO,
    SM_CLOCK_MHZ,
    SYNC,
    THROTTLE_RATIO,
    Ranks,
)
from pilotlight.trace.trace import Bool, Float64

MIN_STEPS = 20
# Of steps that are far apart fewer are enough if all say the same, and loudly.
MIN_STEPS_APART = 8
MIN_STEPS_TRACED = 5
LOUD_RATIO = 0.1
# Of steps that follow each other as few as chance does not explain, by what was usual before.
A_WHILE_NS = 5_000_000_000
MIN_STEPS_IN_A_ROW = 3
CHANCE = 1e-6
LATE_SHARE = 0.6
EXCESS_RATIO = 0.015
# One other rank does not show how much ranks differ without a fault.
EXCESS_OF_TWO_RATIO = 0.05
SPREADS = 5.0
IMBALANCE_RATIO = 0.05
EXPLAINED_RATIO = 0.5
UNEXPLAINED = "no measured part of the step explains it"
CLOCK_RATIO = 0.9
THROTTLED_RATIO = 0.05

# What the excess of a rank lies in: part, rule, cause, what to do.
_REASONS = (
    (LOADER, "A08", "loader", "look at this rank's input: storage, workers, CPU"),
    (GC, "A04", "gc", "gc.freeze() after the start; collect on all ranks at the same steps"),
    (CHECKPOINT, "A37", "checkpoint", "write checkpoints asynchronously and sharded"),
    (COMPILE, "A06", "recompile", "fixed or bucketed shapes; a compile cache that ranks share"),
    (SYNC, "A03", "sync", "look for .item() and prints that only this rank does"),
    (COMPUTE, "A23", "slow_gpu", "look at clocks, temperature, ECC and XID errors; drain the node"),
)


@dataclass(frozen=True)
class _Reason:
    rule: str
    cause: str
    fix: str
    evidence: str


def stragglers(ranks: Ranks) -> Verdict:
    """A26, or what explains it: the same rank holds up the others in most steps, or in each of the
    latest and by much."""
    verdict = _straggler(ranks)
    if verdict.findings or len(ranks.step) < MIN_STEPS:
        return verdict
    if ranks.are_apart:
        latest = ranks.latest(MIN_STEPS_APART)
        loud = _straggler(latest) if latest.total_ns >= A_WHILE_NS else Verdict()
    else:
        loud = _begun(ranks)
    return loud if loud.findings else verdict


def _begun(ranks: Ranks) -> Verdict:
    """A rank that is far behind the middle of the others in every step since a while, was not so
    often before that chance makes such a row, and is beyond its own ups and downs. What another
    rank does in one of these steps takes nothing from it."""
    own = _own(ranks, 2, MIN_STEPS)
    if isinstance(own, str):
        return Verdict(missing=own)
    # By the least of them: what another does in one step is none of it.
    worst = int(own[:, -MIN_STEPS_IN_A_ROW:].min(axis=1).argmax())
    excess = _excess(own, worst)
    is_loud = excess >= LOUD_RATIO * ranks.typical_ns
    quiet = np.flatnonzero(~is_loud)
    before = int(quiet[-1]) + 1 if len(quiet) else 0
    in_a_row = len(is_loud) - before
    if not before or in_a_row < MIN_STEPS_IN_A_ROW:
        return Verdict()
    usual = _usual_share(own[:, :before], is_loud[:before], LOUD_RATIO * ranks.typical_ns)
    if len(own) * usual**in_a_row > CHANCE:
        return Verdict()
    level = float(np.median(excess[:before]))
    spread = 1.4826 * float(np.median(np.abs(excess[:before] - level)))
    if excess[before:].mean() - level < SPREADS * spread:
        return Verdict()
    latest = ranks.latest(in_a_row)
    if latest.total_ns < A_WHILE_NS:
        return Verdict()
    found = _held_up(latest, own[:, before:], worst).findings
    return Verdict(tuple(replace(one, confidence="high") for one in found))


def _usual_share(own: Float64, is_loud: Bool, least_ns: float) -> float:
    """Of the steps those in which a rank is far behind. One that never was has only so many to
    show it, and of long steps these are few: then the steps of all ranks count."""
    own_share = (int(is_loud.sum()) + 1) / (len(is_loud) + 2)
    if is_loud.any():
        return own_share
    # At most what the middle of the others is for the slowest.
    low = (len(own) - 2) // 2
    middle = np.partition(own, low, axis=0)[low]
    return min(own_share, (int((own - middle >= least_ns).sum()) + 1) / (own.size + 2))


def _straggler(ranks: Ranks) -> Verdict:
    usual = MIN_STEPS_APART if ranks.are_apart else MIN_STEPS
    own = _own(ranks, 2, MIN_STEPS_TRACED if ranks.are_traced else usual)
    if isinstance(own, str):
        return Verdict(missing=own)
    worst = int(own.mean(axis=1).argmax())
    beyond = own[worst] - np.delete(own, worst, axis=0).max(axis=0)
    if len(ranks.step) < MIN_STEPS and beyond.min() < LOUD_RATIO * ranks.typical_ns:
        return Verdict(missing=f"needs {MIN_STEPS} steps that all ranks have")
    return _held_up(ranks, own, worst) if _is_sure(_excess(own, worst)) else Verdict()


def _held_up(ranks: Ranks, own: Float64, worst: int) -> Verdict:
    others = np.delete(own, worst, axis=0)
    late_share = float((own.argmax(axis=0) == worst).mean())
    beyond = own[worst] - others.max(axis=0)
    gain = float(np.maximum(beyond, 0.0).sum()) / ranks.total_ns
    means = others.mean(axis=1)
    spread = 1.4826 * float(np.median(np.abs(means - np.median(means))))
    apart = float(own[worst].mean() - np.median(means))
    if (
        late_share < LATE_SHARE
        or gain < (EXCESS_OF_TWO_RATIO if len(own) == 2 else EXCESS_RATIO)
        or apart < SPREADS * spread
    ):
        return Verdict()
    # Of two, one that is a little slower for a while may be the other next.
    is_plain = len(own) > 2 or gain >= LOUD_RATIO
    reason = _reason(ranks, worst, apart)
    window = ranks.windows[worst]
    held_up = "all others" if len(own) > 2 else "the other"
    return Verdict(
        (
            Finding(
                rule=reason.rule,
                cause=reason.cause,
                title=f"Rank {window.rank} holds up {held_up}",
                rank=window.rank,
                place=f"rank {window.rank}" + (f" on {window.node}" if window.node else ""),
                evidence=(
                    f"slowest in {percent(late_share)} of {len(ranks.step)} steps",
                    f"{milliseconds(apart)} more of its own a step than the other ranks",
                    reason.evidence,
                ),
                fix=reason.fix,
                gain_low_ratio=0.8 * gain,
                gain_high_ratio=gain,
                confidence="high" if late_share > 0.8 and is_plain else "medium",
            ),
        )
    )


def _excess(own: Float64, worst: int) -> Float64:
    """Of each step, over the middle of the other ranks."""
    excess: Float64 = own[worst] - np.median(np.delete(own, worst, axis=0), axis=0)
    return excess


def imbalance(ranks: Ranks) -> Verdict:
    """A29: in every step another rank is the slowest, by more than noise."""
    own = _own(ranks, 3, MIN_STEPS)
    if isinstance(own, str):
        return Verdict(missing=own)
    for name in (LOADER, GC, CHECKPOINT, COMPILE):
        part = ranks.part(name)
        if part is not None:
            own = np.maximum(own - part, 0.0)
    lost = own.max(axis=0) - own.mean(axis=0)
    gain = float(lost.sum()) / ranks.total_ns
    slowest = own.argmax(axis=0)
    last = np.bincount(slowest, minlength=len(own)) / own.shape[1]
    # A rank that has begun to be late is the slowest in few of the steps and costs most of it all.
    cost = np.bincount(slowest, lost, len(own)) / max(1.0, lost.sum())
    if max(last.max(), cost.max()) >= LATE_SHARE or gain < IMBALANCE_RATIO:
        return Verdict()
    return Verdict(
        (
            Finding(
                rule="A29",
                cause="imbalance",
                title="The ranks get unequal work",
                rank=None,
                place="input of the steps",
                evidence=(
                    f"the slowest rank takes {percent(gain)} of the step longer than the mean",
                    f"no rank is the slowest in more than {percent(float(last.max()))} of the"
                    " steps",
                ),
                fix="pack or order the samples by length so that the ranks get equal work",
                gain_low_ratio=gain / 2,
                gain_high_ratio=gain,
                confidence="medium",
            ),
        )
    )


def _own(ranks: Ranks, least_ranks: int, least_steps: int) -> Float64 | str:
    if len(ranks.windows) < least_ranks:
        return f"needs {least_ranks} ranks or more"
    if len(ranks.step) < least_steps:
        return f"needs {least_steps} steps that all ranks have"
    own = ranks.own_ns()
    if own is None:
        return "no time in collectives: the ranks' own time is not known"
    return own


def _is_sure(excess: Float64) -> bool:
    """Five standard errors, with the steps as they follow each other and not as if independent."""
    count = len(excess)
    deviation = float(excess.std(ddof=1))
    if not deviation:
        return True
    centred = excess - excess.mean()
    rho = float((centred[1:] * centred[:-1]).sum() / (centred**2).sum())
    effective = count * (1 - max(0.0, min(rho, 0.95))) / (1 + max(0.0, min(rho, 0.95)))
    return bool(excess.mean() > SPREADS * deviation / max(1.0, effective) ** 0.5)


def _reason(ranks: Ranks, worst: int, apart_ns: float) -> _Reason:
    """The part of the step that the excess lies in, if one holds half of it."""
    best: tuple[float, _Reason] | None = None
    for name, rule, cause, fix in _REASONS:
        part = ranks.part(name)
        if part is None:
            continue
        excess = float(part[worst].mean() - np.median(np.delete(part, worst, axis=0).mean(axis=1)))
        if excess >= EXPLAINED_RATIO * apart_ns and (best is None or excess > best[0]):
            text = f"{milliseconds(excess)} of it in {name}"
            best = excess, _Reason(rule, cause, fix, text)
    if best is None:
        return _host_reason(ranks, worst)
    if best[1].cause == "slow_gpu":
        return _throttled(ranks, worst) or best[1]
    return best[1]


def _throttled(ranks: Ranks, worst: int) -> _Reason | None:
    """A22: the clock says why the device is slow."""
    fix = "look at cooling, power limit and the node's power supply; move the job off it"
    ratio, clock = ranks.counter(THROTTLE_RATIO), ranks.counter(SM_CLOCK_MHZ)
    if ratio is not None and ratio[worst] > THROTTLED_RATIO + np.median(ratio):
        text = f"its clock is throttled in {percent(float(ratio[worst]))} of the samples"
        return _Reason("A22", "throttle", fix, text)
    if clock is not None and clock[worst] < CLOCK_RATIO * np.median(clock):
        text = f"its clock is {clock[worst]:,.0f} MHz, the others' {np.median(clock):,.0f} MHz"
        return _Reason("A22", "throttle", fix, text)
    return None


def _host_reason(ranks: Ranks, worst: int) -> _Reason:
    for name, text in (
        (CGROUP_THROTTLED_RATIO, "its control group is throttled"),
        (RUN_QUEUE_RATIO, "its threads wait for a core"),
    ):
        values = ranks.counter(name)
        if values is not None and values[worst] > 0.05 + np.median(values):
            evidence = f"{text} in {percent(float(values[worst]))} of the time"
            fix = "give the rank more CPU, pin it next to its GPU, set OMP_NUM_THREADS"
            return _Reason("A05", "cpu_contention", fix, evidence)
    fix = "look at this rank's device, host and input; move it to another node"
    return _Reason("A26", "straggler", fix, UNEXPLAINED)
