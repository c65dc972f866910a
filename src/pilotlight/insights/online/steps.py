"""The steps of the job as a series: stalls that recur, single long steps, a level that changed."""

from __future__ import annotations

import numpy as np

from pilotlight.insights.change import levels
from pilotlight.insights.finding import Finding, Verdict, milliseconds, percent
from pilotlight.insights.online.ranks import MIN_STEPS
from pilotlight.insights.online.window import (
    CHECKPOINT,
    COMPILE,
    COMPUTE,
    EXPOSED_COMMUNICATION,
    GC,
    LOADER,
    LOADER_IDLE,
    PHASES,
    SYNC,
    Ranks,
)
from pilotlight.trace.trace import Float64

NOT_SENT = "the ranks do not send the part"
STALL_RATIO = 0.02
SPIKE_RATIO = 2.0
LEVEL_RATIO = 0.03
UNIFORM_RATIO = 0.7
ALL_RANKS = "all ranks"

_WORDS = {
    LOADER: "waiting for the loader",
    GC: "garbage collection",
    COMPILE: "compilation",
    SYNC: "waiting for the device",
    EXPOSED_COMMUNICATION: "communication",
}
# As the page calls them.
_NAMES = {LOADER: "data loader", GC: "garbage collection", COMPILE: "compilation"} | {
    SYNC: "synchronisation",
    EXPOSED_COMMUNICATION: "exposed communication",
}
_PARTS = (LOADER, GC, CHECKPOINT, COMPILE, SYNC, EXPOSED_COMMUNICATION)


def loader(ranks: Ranks) -> Verdict:
    """A08: waiting for the next batch, on the worst rank of each step."""
    name = LOADER_IDLE if ranks.part(LOADER_IDLE) is not None else LOADER
    fix = "more loader workers, prefetch_factor, persistent_workers, pin_memory"
    low = 0.7 if name == LOADER_IDLE else 0.4
    return _stall(ranks, name, ("A08", "loader"), "The job waits for its data loader", fix, low)


def garbage(ranks: Ranks) -> Verdict:
    """A04: collections stop another rank in every other step."""
    fix = "gc.freeze() after the start, gc.disable() and collect every 1000 steps on all ranks"
    return _stall(ranks, GC, ("A04", "gc"), "Garbage collection stops the ranks", fix, 0.6)


def checkpoints(ranks: Ranks) -> Verdict:
    """A37: steps stand still while a checkpoint is written."""
    fix = "asynchronous and sharded checkpoints, or fewer of them"
    title = "Checkpoints stop the job"
    return _stall(ranks, CHECKPOINT, ("A37", "checkpoint"), title, fix, 0.7)


def recompiles(ranks: Ranks) -> Verdict:
    """A06: code is compiled in the middle of the run."""
    fix = "fixed or bucketed shapes, mark_dynamic, a compile cache that ranks share"
    title = "Code is compiled in the middle of the run"
    return _stall(ranks, COMPILE, ("A06", "recompile"), title, fix, 0.8)


def _stall(
    ranks: Ranks, name: str, rule: tuple[str, str], title: str, fix: str, low: float
) -> Verdict:
    part = ranks.part(name)
    if part is None:
        return Verdict(missing=f"{NOT_SENT} {name!r} of their steps")
    if part.shape[1] < ranks.stall_steps:
        return Verdict(missing=f"needs {ranks.stall_steps} steps that all ranks have")
    lost = part.max(axis=0)
    gain = float(lost.sum()) / ranks.total_ns
    if gain < STALL_RATIO:
        return Verdict()
    worst = int(part.sum(axis=1).argmax())
    times = int((lost > 0.01 * ranks.typical_ns).sum())
    share = float(part[worst].sum() / max(1.0, part.sum()))
    alone = len(part) > 1 and share > 0.5
    return Verdict(
        (
            Finding(
                rule=rule[0],
                cause=rule[1],
                title=title,
                rank=ranks.rank[worst],
                place=f"rank {ranks.rank[worst]}" if alone or len(part) == 1 else ALL_RANKS,
                evidence=(
                    f"{_WORDS.get(name, name)}: {percent(gain)} of the step"
                    + (", on the worst rank of each" if len(part) > 1 else ""),
                    f"in {times} of {len(lost)} steps, the longest"
                    f" {milliseconds(float(lost.max()))}",
                ),
                fix=fix,
                gain_low_ratio=low * gain,
                gain_high_ratio=gain,
                # What happened once may have been chance.
                confidence="high" if gain > 0.15 and times > 1 else "medium",
            ),
        )
    )


def irregular(ranks: Ranks) -> Verdict:
    """A34: single steps of more than twice the usual, and a level that rose for good."""
    if len(ranks.step) < MIN_STEPS:
        return Verdict(missing=f"needs {MIN_STEPS} steps that all ranks have")
    series = ranks.step_ns.max(axis=0)
    return Verdict((*_spikes(ranks, series), *_risen(ranks, series)))


def _spikes(ranks: Ranks, series: Float64) -> tuple[Finding, ...]:
    usual = float(np.median(series))
    slow = np.flatnonzero(series > SPIKE_RATIO * usual)
    if not len(slow) or len(slow) > len(series) / 4:
        return ()
    gain = float((series[slow] - usual).sum() / series.sum())
    moved = _moved(ranks, np.isin(np.arange(len(series)), slow))
    worst = int(ranks.step_ns[:, slow].sum(axis=1).argmax())
    return (
        Finding(
            rule="A34",
            cause="irregular",
            title="Some steps take more than twice as long as the others",
            rank=ranks.rank[worst],
            place=_NAMES.get(moved, moved) or "steps",
            evidence=(
                f"{len(slow)} of {len(series)} steps, the longest"
                f" {milliseconds(float(series.max()))} against {milliseconds(usual)}",
                f"step{'s' * (len(slow) > 1)} {', '.join(str(ranks.step[i]) for i in slow[:8])}",
                f"what grew: {_WORDS.get(moved, moved) or 'no measured part'}",
            ),
            fix="make what happens in them asynchronous or rarer",
            gain_low_ratio=gain / 2,
            gain_high_ratio=gain,
            confidence="medium",
        ),
    )


def _risen(ranks: Ranks, series: Float64) -> tuple[Finding, ...]:
    """Not if compute grew alike on all ranks: then the job itself does more, or all devices were
    told to go slower."""
    found = levels(series)
    if len(found) < 2:
        return ()
    before, after = min(found[:-1], key=lambda level: level.typical), found[-1]
    rise = after.typical / before.typical - 1 if before.typical else 0.0
    if rise < LEVEL_RATIO:
        return ()
    late = np.arange(len(series)) >= after.begin
    moved = _moved(ranks, late)
    if moved in ("", COMPUTE) and _all_alike(ranks, late, rise):
        return ()
    gain = 1 - before.typical / after.typical
    return (
        Finding(
            rule="A34",
            cause="changed",
            title=f"The job became slower at step {ranks.step[after.begin]}",
            rank=None,
            place=_NAMES.get(moved, moved) or "steps",
            evidence=(
                f"{milliseconds(before.typical)} a step before,"
                f" {milliseconds(after.typical)} since",
                f"what grew: {_WORDS.get(moved, moved) or 'no measured part'}",
            ),
            fix="look at what else began then: neighbours on the network, storage, other jobs",
            gain_low_ratio=gain / 2,
            gain_high_ratio=gain,
            confidence="medium",
        ),
    )


def _moved(ranks: Ranks, late: np.ndarray[tuple[int], np.dtype[np.bool_]]) -> str:
    """The part that grew most in these steps, on the rank where it grew most."""
    grown: dict[str, float] = {}
    for name in (*_PARTS, COMPUTE):
        part = ranks.part(name)
        if part is not None:
            change = part[:, late].mean(axis=1) - part[:, ~late].mean(axis=1)
            grown[name] = float(change.max())
    if not grown:
        return ""
    name = max(grown, key=lambda key: grown[key])
    return name if grown[name] > 0.01 * ranks.typical_ns else ""


def _all_alike(ranks: Ranks, late: np.ndarray[tuple[int], np.dtype[np.bool_]], rise: float) -> bool:
    parts = (part for name in (COMPUTE, PHASES) if (part := ranks.part(name)) is not None)
    table = next(parts, None)
    table = ranks.own_ns() if table is None else table
    if table is None:
        return True
    before = np.median(table[:, ~late], axis=1)
    ratio = np.median(table[:, late], axis=1) / np.maximum(before, 1.0) - 1
    return bool((ratio > UNIFORM_RATIO * rise).all())
