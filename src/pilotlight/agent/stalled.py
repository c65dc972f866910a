"""Ranks that make no step are asked in which collective they wait: the collector compares them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from pilotlight.agent.errands import Answer

QUIET_NS = 10_000_000_000
_TIMEOUT_NS = 5_000_000_000
_MOST_GROUPS = 64
_LONGEST_NAME = 200

Ask = Callable[[int, Mapping[str, object], int, Callable[[Answer], None]], None]


@dataclass(frozen=True)
class Waits:
    """By group the number of the last collective that was entered, the last that was finished, and
    the operation of the one entered; empty while steps go on."""

    entered: Mapping[str, int] = field(default_factory=dict)
    finished: Mapping[str, int] = field(default_factory=dict)
    operations: Mapping[str, str] = field(default_factory=dict)


@dataclass
class Quiet:
    """One process between two steps. A hang does not change: it is asked ever more seldom."""

    pid: int
    waits: Waits = field(default_factory=Waits)
    _since_ns: int = 0
    _due_ns: int = QUIET_NS

    def look(self, last_step_ns: int, now_ns: int, ask: Ask) -> None:
        if last_step_ns != self._since_ns:
            self._since_ns, self._due_ns, self.waits = last_step_ns, QUIET_NS, Waits()
        quiet_ns = now_ns - last_step_ns
        if not last_step_ns or quiet_ns < self._due_ns:
            return
        self._due_ns = 2 * quiet_ns
        since_ns = last_step_ns

        def answered(answer: Answer) -> None:
            if self._since_ns == since_ns:
                self.waits = waits_of(answer)

        ask(self.pid, {"do": "collectives"}, _TIMEOUT_NS, answered)


def waits_of(answer: Answer) -> Waits:
    """What is not of the right kind is left out."""
    entered: dict[str, int] = {}
    finished: dict[str, int] = {}
    operations: dict[str, str] = {}
    groups = answer.get("groups")
    for name, told in list(groups.items())[:_MOST_GROUPS] if isinstance(groups, Mapping) else ():
        if not isinstance(told, Mapping):
            continue
        last, done = _number(told.get("entered")), _number(told.get("finished"))
        if last is not None and done is not None:
            group = str(name)[:_LONGEST_NAME]
            entered[group], finished[group] = last, done
            operations[group] = str(told.get("operation", ""))[:_LONGEST_NAME]
    return Waits(entered, finished, operations)


def _number(value: object) -> int | None:
    return value if type(value) is int and 0 <= value < 1 << 62 else None
