"""What the nodes of one capture agree on: proposals until all have come, then one decision."""

from __future__ import annotations

import time
from collections.abc import Collection
from dataclasses import dataclass, field

from pilotlight.capture.agree import Proposal, decide

WAIT_S = 15.0


@dataclass(frozen=True)
class Decided:
    """`start_ns` is on this collector's wall clock."""

    first_step: int | None
    start_ns: int


@dataclass
class Agreement:
    """Who comes after the decision is told the same; it may still reach that step, or says not."""

    decided: Decided | None = None
    _proposals: dict[str, tuple[Proposal, int]] = field(default_factory=dict)

    def propose(self, agent: str, proposal: Proposal) -> None:
        if self.decided is None:
            self._proposals.setdefault(agent, (proposal, time.monotonic_ns()))

    def look(self, awaited: Collection[str]) -> Decided | None:
        """The decision, if all who can still propose have, or the first has waited long enough."""
        if self.decided is None and self._proposals:
            now_ns = time.monotonic_ns()
            waited_ns = now_ns - min(at_ns for _, at_ns in self._proposals.values())
            if waited_ns > WAIT_S * 1e9 or set(awaited) <= set(self._proposals):
                decision = decide(list(self._proposals.values()), now_ns)
                self.decided = Decided(decision.first_step, time.time_ns() + decision.in_ns)
        return self.decided
