"""What is asked for and what is answered; the same between client, agent and collector."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field

from pilotlight.errors import UsageError
from pilotlight.kineto.config import Options
from pilotlight.recording.fields import take, take_optional, take_or

MOST_STEPS = 1000
LONGEST_S = 600.0
MOST_RANKS = 100_000


@dataclass(frozen=True)
class CaptureRequest:
    """Of a job or of one process. No ranks means all of them.

    `seconds` stands in for steps where a process does not count any.
    """

    job: str | None
    pid: int | None
    steps: int = 3
    seconds: float = 1.0
    ranks: tuple[int, ...] = ()
    options: Options = field(default_factory=Options)
    patience_s: float = 60.0
    agrees: bool = False
    """Its first step is agreed on with other nodes: it waits until it is told."""

    def __post_init__(self) -> None:
        if (self.job is None) == (self.pid is None):
            raise UsageError("capture: name a job or a pid")
        if not 1 <= self.steps <= MOST_STEPS:
            raise UsageError(f"a capture has 1 to {MOST_STEPS} steps")
        if not 0.01 <= self.seconds <= LONGEST_S:
            raise UsageError(f"a capture lasts 0.01 to {LONGEST_S:g} seconds")
        if not 1 <= self.patience_s <= 3600:
            raise UsageError("a capture is waited for for 1 to 3600 seconds")
        if len(self.ranks) > MOST_RANKS or any(rank < 0 for rank in self.ranks):
            raise UsageError("ranks are numbers from 0")

    def to_json(self) -> dict[str, object]:
        return asdict(self)

    @classmethod
    def from_json(cls, content: Mapping[str, object]) -> CaptureRequest:
        """FormatError or UsageError says what is wrong."""
        options = take_or(content, "options", dict[str, object]())
        ranks = take_or(content, "ranks", list[object]())
        return cls(
            job=take_optional(content, "job", str),
            pid=take_optional(content, "pid", int),
            steps=take_or(content, "steps", 3),
            seconds=float(take_or(content, "seconds", 1.0)),
            ranks=tuple(take({"ranks": rank}, "ranks", int) for rank in ranks),
            options=Options(
                stacks=take_or(options, "stacks", False),
                shapes=take_or(options, "shapes", False),
                memory=take_or(options, "memory", False),
            ),
            patience_s=float(take_or(content, "patience_s", 60.0)),
            agrees=take_or(content, "agrees", False),
        )


# How far a process has come; the last three are ends.
FOUND = "found"
WAITING = "waiting for its poll"
TRACING = "asked"
DONE = "done"
FAILED = "failed"
LEFT_OUT = "left out"
ENDS = (DONE, FAILED, LEFT_OUT)


@dataclass(frozen=True)
class Answered:
    """What became of one process; `file` lies in the staging folder until it is collected."""

    pid: int
    rank: int | None
    world_size: int | None
    role: str
    how: str | None
    state: str
    reason: str | None
    file: str | None
    steps: int | None
    start_ns: int | None
    stacks: str | None
    flight_recorder: str | None
    steps_with_request: int | None = None
    """How many steps it had done at a time when it surely had its request."""

    @classmethod
    def from_json(cls, content: Mapping[str, object]) -> Answered:
        return cls(
            pid=take(content, "pid", int),
            rank=take_optional(content, "rank", int),
            world_size=take_optional(content, "world_size", int),
            role=take(content, "role", str),
            how=take_optional(content, "how", str),
            state=take(content, "state", str),
            reason=take_optional(content, "reason", str),
            file=take_optional(content, "file", str),
            steps=take_optional(content, "steps", int),
            start_ns=take_optional(content, "start_ns", int),
            stacks=take_optional(content, "stacks", str),
            flight_recorder=take_optional(content, "flight_recorder", str),
            steps_with_request=take_optional(content, "steps_with_request", int),
        )
