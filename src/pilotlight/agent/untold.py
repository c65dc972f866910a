"""For those who look on: what a process waits in reductions of gradients that its adapter does not
tell (probe/torch/ddp.py tells every n-th of fast ones, and numbers them all)."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from statistics import fmean

from pilotlight.agent.reductions import REDUCTION
from pilotlight.agent.tables import Columns, Tables, numbers, texts

_REMEMBERED = 16
_MOST_GROUPS = 16


class Untold:
    """Of one process."""

    def __init__(self) -> None:
        self._name = 0
        # By group: number, wait and steps of the process until then, of those told last.
        self._told: dict[int, deque[tuple[int, int, int]]] = {}

    def see(self, tables: Tables, steps: int) -> None:
        if not self._name and "names" in tables:
            columns = tables["names"][1]
            found = texts(columns["text"], columns["text:offsets"])
            if REDUCTION in found:
                self._name = numbers("u32", columns["id"])[found.index(REDUCTION)]
        if self._name and "collectives" in tables:
            self._reductions(tables["collectives"][1], steps)

    def _reductions(self, columns: Columns, steps: int) -> None:
        rows = zip(
            numbers("u32", columns["name"]),
            numbers("u32", columns["group"]),
            numbers("u64", columns["sequence"]),
            numbers("i64", columns["wait_ns"]),
            strict=True,
        )
        for name, group, sequence, wait_ns in rows:
            if name != self._name or (group not in self._told and len(self._told) >= _MOST_GROUPS):
                continue
            told = self._told.setdefault(group, deque(maxlen=_REMEMBERED))
            if told and sequence <= told[-1][0]:
                told.clear()  # another module, which begins to count anew
            told.append((sequence, max(0, wait_ns), steps))

    def a_step_ns(self) -> float:
        """How long a step waits in reductions that are not told, lately."""
        return sum(_untold_ns(list(told)) for told in self._told.values())

    def shared(self, phases: Mapping[str, float], steps_per_s: float) -> dict[str, float]:
        """The shares of phases with what hides in the backward as communication."""
        hidden = min(phases.get("backward", 0.0), self.a_step_ns() * steps_per_s / 1e9)
        if not hidden:
            return dict(phases)
        return {
            **phases,
            "backward": round(phases["backward"] - hidden, 4),
            "communication": round(min(1.0, phases.get("communication", 0.0) + hidden), 4),
        }


def _untold_ns(told: list[tuple[int, int, int]]) -> float:
    if len(told) < 2:
        return 0.0
    (first, _, first_steps), (last, _, last_steps) = told[0], told[-1]
    untold, steps = last - first - (len(told) - 1), last_steps - first_steps
    if untold <= 0 or steps <= 0:
        return 0.0
    return untold / steps * fmean(wait_ns for _, wait_ns, _ in told)
