"""One process of a capture, from being found to its file or the reason why there is none."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from pilotlight.capture.plan import Candidate, Progress
from pilotlight.capture.request import ENDS, FAILED, FOUND, Answered

KINETO, XSPACE = "kineto", "xspace"
_PICKED_UP_NS = 300_000_000


@dataclass
class Target:
    candidate: Candidate
    role: str = ""
    how: str | None = None
    state: str = FOUND
    reason: str | None = None
    file: Path | None = None
    facts: dict[str, object] = field(default_factory=dict)
    progress: Progress | None = None
    step_ns: int = 0
    advanced_ns: int = 0
    """When it was last seen to have done a step, or to answer at all."""
    handed_ns: int | None = None
    steps_with_request: int | None = None
    is_asked: bool = False
    """An answer of it is on its way."""
    start_ns: int | None = None
    recorded_steps: int | None = None
    """How many its probe had seen when a trace by time began."""
    begun_ns: int | None = None
    """When a trace by time was first seen to have begun."""
    recorded_last: int | None = None
    phases_ns: int | None = None
    """Of its phases that were over when it was last looked at."""
    is_enough: bool = False
    stacks: Path | None = None
    flight_recorder: Path | None = None

    @property
    def pid(self) -> int:
        return self.candidate.pid

    @property
    def has_ended(self) -> bool:
        return self.state in ENDS

    @property
    def title(self) -> str:
        """A name for its files."""
        rank = self.candidate.rank
        return f"rank{rank}" if rank is not None else f"pid{self.pid}"

    def has_request(self, now_ns: int) -> bool:
        """Surely: Kineto looks for its answer every ten milliseconds."""
        return self.handed_ns is not None and now_ns - self.handed_ns >= _PICKED_UP_NS

    def fail(self, reason: str) -> None:
        if not self.has_ended:
            self.state, self.reason = FAILED, reason

    def learn(self, facts: dict[str, object], now_ns: int, has_request: bool) -> None:
        """Another answer: how far it has come since the first."""
        self.facts = facts
        steps = facts.get("steps")
        if has_request and self.steps_with_request is None and type(steps) is int:
            self.steps_with_request = steps
        if type(steps) is not int or steps < 0:
            self.advanced_ns = self.advanced_ns or now_ns
            return
        if self.progress is None:
            self.progress = Progress(now_ns, steps, now_ns, steps)
            self.advanced_ns = now_ns
            return
        if steps > self.progress.last_steps:
            self.advanced_ns = now_ns
        first = self.progress
        self.progress = Progress(first.first_ns, first.first_steps, now_ns, steps)

    def answered(self) -> Answered:
        return Answered(
            pid=self.pid,
            rank=self.candidate.rank,
            world_size=self.candidate.world_size,
            role=self.role,
            how=self.how,
            state=self.state,
            reason=self.reason,
            file=str(self.file) if self.file else None,
            steps=self.progress.last_steps if self.progress else None,
            start_ns=self.start_ns,
            stacks=str(self.stacks) if self.stacks else None,
            flight_recorder=str(self.flight_recorder) if self.flight_recorder else None,
            steps_with_request=self.steps_with_request,
        )
