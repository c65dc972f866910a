"""One capture: who was asked for which ranks, and what has come of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from pilotlight.capture.told import RankTold
from pilotlight.collector.agreement import Agreement


@dataclass
class Capture:
    """`agents`: by agent the node and ranks that are asked; `got`: by agent what it sent; `told`:
    how far its ranks are, where steps are traced."""

    id: str
    tenant: str
    job: str
    attempt: int
    reason: str
    asked_by: str
    finding: str
    agents: dict[str, tuple[str, tuple[int, ...]]]
    from_ns: int
    to_ns: int
    requested_ns: int
    expires_ns: int
    options: Mapping[str, object] = field(default_factory=dict)
    handed: set[str] = field(default_factory=set)
    got: dict[str, int] = field(default_factory=dict)
    problems: dict[str, str] = field(default_factory=dict)
    told: dict[str, tuple[RankTold, ...]] = field(default_factory=dict)
    agreement: Agreement = field(default_factory=Agreement)
    state: str = "requested"

    @property
    def ranks(self) -> list[int]:
        return sorted({rank for _, ranks in self.agents.values() for rank in ranks})

    def title_of(self, agent: str) -> str:
        """Its node; two agents of one machine are told apart."""
        node = self.agents[agent][0]
        is_shared = sum(other == node for other, _ in self.agents.values()) > 1
        return f"{node}-{agent[:8]}" if is_shared else node

    def row(self, now_ns: int) -> dict[str, object]:
        return {
            "tenant": self.tenant,
            "job": self.job,
            "attempt": self.attempt,
            "id": self.id,
            "reason": self.reason,
            "asked_by": self.asked_by,
            "finding": self.finding,
            "state": self.state,
            "problem": "; ".join(f"{node}: {why}" for node, why in self.problems.items())[:2000],
            "ranks": self.ranks,
            "nodes": sorted({node for node, _ in self.agents.values()}),
            "from_ns": self.from_ns,
            "to_ns": self.to_ns,
            "requested_ns": self.requested_ns,
            "updated_ns": now_ns,
            "expires_ns": self.expires_ns,
            "files": len(self.got),
            "bytes": sum(self.got.values()),
        }
