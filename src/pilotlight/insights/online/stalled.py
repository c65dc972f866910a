"""A33: no rank goes on. Who has not come to what the others wait in?"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from pilotlight.insights.finding import Finding, Verdict
from pilotlight.insights.online.window import Progress, RankWindow

LEAST_NS = 30_000_000_000
STEPS = 5


def hang(windows: Sequence[RankWindow], now_ns: int) -> Verdict:
    """`now_ns` and `last_step_ns` are of the same clock."""
    known = [(w.rank, w.progress) for w in windows if w.progress is not None]
    if not known:
        return Verdict(missing="the ranks do not send where they are")
    lengths = [value for window in windows for value in window.step_ns]
    patience_ns = max(LEAST_NS, STEPS * float(np.quantile(lengths, 0.99)) if lengths else 0.0)
    quiet_ns = now_ns - max(progress.last_step_ns for _, progress in known)
    if quiet_ns < patience_ns:
        return Verdict()
    suspects, why = _suspects(known)
    stacks = [f"rank {rank}: {p.stack}" for rank, p in known if rank in suspects and p.stack]
    single = suspects[0] if len(suspects) == 1 else None
    named = ", ".join(map(str, suspects[:8])) + (", ..." if len(suspects) > 8 else "")
    return Verdict(
        (
            Finding(
                rule="A33",
                cause="hang",
                title="The job hangs" + (f": rank {named} is missing" if suspects else ""),
                rank=single,
                place=f"ranks {named}" if suspects else "not known",
                evidence=(f"no step for {quiet_ns / 1e9:.0f} s", why, *stacks[:4]),
                fix="look at the stacks of the missing ranks; `pilotlight hang` on their dumps",
                gain_low_ratio=1.0,
                gain_high_ratio=1.0,
                confidence="high" if suspects else "low",
            ),
        )
    )


def _suspects(known: Sequence[tuple[int, Progress]]) -> tuple[list[int], str]:
    gone = [rank for rank, progress in known if not progress.is_alive]
    if gone:
        return gone, "its process has ended"
    behind: set[int] = set()
    waiting: set[int] = set()
    text = ""
    for group in sorted({name for _, progress in known for name in progress.entered}):
        entered = {rank: p.entered[group] for rank, p in known if group in p.entered}
        furthest = max(entered.values())
        late = {rank for rank, number in entered.items() if number < furthest}
        if late:
            behind |= late
            waiting |= set(entered) - late
            text = f"not entered: {_collective(known, group, furthest)}"
    # Who waits in one group and is late in another is a victim.
    suspects = sorted(behind - waiting) or sorted(behind)
    if suspects:
        return suspects, text
    stuck = {
        rank
        for rank, p in known
        for group, number in p.entered.items()
        if p.finished.get(group, number) < number
    }
    silent = sorted(rank for rank, p in known if not p.entered)
    if stuck and silent:
        group, number = next(iter(next(p for rank, p in known if rank in stuck).entered.items()))
        where = _collective(known, group, number)
        return silent, f"the others wait in {where}, these do not say where they are"
    if stuck and len(stuck) < len(known):
        return sorted(stuck), "entered by all, not finished by these: their device or link"
    if stuck:
        return [], "all ranks have entered the same collective and none leaves: the network"
    return [], "no collectives known: compare the stacks"


def _collective(known: Sequence[tuple[int, Progress]], group: str, number: int) -> str:
    names = (p.operations.get(group) for _, p in known if p.entered.get(group) == number)
    operation = next(filter(None, names), "")
    return f"{operation}{', ' if operation else ''}collective {number} of group {group}"
