"""What the API answers about one job."""

from __future__ import annotations

from msgspec import Struct

from pilotlight.store.queries import Attempt, Cost, FindingRow, JobRow, RankRow, Waste


class Event(Struct, frozen=True):
    """`kind` is start, restart, finding, capture, recompilation or checkpoint."""

    time_ns: int
    kind: str
    text: str


class AttemptChange(Struct, frozen=True):
    """What an attempt had otherwise than the one before it."""

    attempt: int
    name: str
    before: str
    after: str


class Job(Struct, frozen=True):
    """`step_ns` is the mean of the last ten minutes of a running job; `earlier` says what
    `earlier_step_ns` is of: yesterday, or the time before those minutes of a younger job."""

    now_ns: int
    headline: str
    row: JobRow
    attempt: int
    attempts: list[Attempt]
    facts: dict[str, object]
    quantiles_ns: dict[str, int]
    waste: Waste
    losses: dict[str, int]
    step_ns: float | None
    earlier_step_ns: float | None
    earlier: str
    first_step: int
    last_step: int
    first_step_ns: int
    last_step_ns: int
    ranks: list[RankRow]
    findings: list[FindingRow]
    events: list[Event]
    changes: list[AttemptChange]
    cost: Cost
    is_partial: bool
