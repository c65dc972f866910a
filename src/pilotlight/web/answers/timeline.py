"""What the API answers about a trace: findings, rows, steps, searches."""

from __future__ import annotations

from msgspec import Struct


class Row(Struct, frozen=True):
    """A row of the timeline; `depth` is its nesting below the first row of its lane."""

    title: str
    is_device: bool
    depth: int


class Parts(Struct, frozen=True):
    """Nanoseconds of a window; compute, exposed parts and idle add up to it."""

    window_ns: int
    compute_ns: int
    exposed_communication_ns: int
    exposed_copy_ns: int
    idle_ns: int
    communication_ns: int
    copy_ns: int
    idle_by_cause_ns: dict[str, int]


class Step(Struct, frozen=True):
    """`start_ns` is relative to the begin of the timeline; `parts` is absent without a device."""

    number: int
    start_ns: int
    duration_ns: int
    parts: Parts | None


class Rank(Struct, frozen=True):
    """Times are relative to the begin of the timeline."""

    rank: int
    source: str
    format: str
    device: str
    spans: int
    left_out: int
    rows: list[Row]
    first_ns: int
    last_ns: int
    parts: Parts | None
    steps: list[Step]


class Place(Struct, frozen=True):
    """A span to look at; the time is relative to the begin of the timeline."""

    rank: int
    name: str
    start_ns: int
    duration_ns: int


class Finding(Struct, frozen=True):
    rule: str
    cause: str
    title: str
    rank: int | None
    place: str
    evidence: list[str]
    fix: str
    gain_low_ratio: float
    gain_high_ratio: float
    confidence: str
    places: list[Place]


class NotChecked(Struct, frozen=True):
    rule: str
    cause: str
    missing: str


class Kernel(Struct, frozen=True):
    """A kernel over all ranks of the trace."""

    name: str
    category: str
    count: int
    total_ns: int
    median_ns: int


class StallReason(Struct, frozen=True):
    """`words` is the hardware's name of it in plain words."""

    reason: str
    words: str
    samples: int
    ratio: float


class KernelStalls(Struct, frozen=True):
    """Why a kernel did not go on, by PC samples; `ratio` of all samples of the capture."""

    name: str
    samples: int
    ratio: float
    reasons: list[StallReason]


class CounterLine(Struct, frozen=True):
    """A counter; of many values the least and the greatest of each stretch."""

    rank: int
    name: str
    time_ns: list[int]
    value: list[float]


class Trace(Struct, frozen=True):
    """A set of traces that belong to one job. `levels` is the number of levels of detail; on the
    finest, spans shorter than `merged_ns` are drawn together: 0 where each is drawn by itself.
    `path_ratios` is what the critical path consists of, `clock_offset_ns` is how far the furthest
    clock was off before the ranks were put on one."""

    id: str
    title: str
    headline: str
    step_ns: float | None
    length_ns: int
    levels: int
    merged_ns: float
    ranks: list[Rank]
    findings: list[Finding]
    not_checked: list[NotChecked]
    kernels: list[Kernel]
    counters: list[CounterLine]
    counters_left_out: int
    problems: list[str]
    path_ratios: dict[str, float]
    path_missing: str
    clock_offset_ns: int
    stalls: list[KernelStalls]


class TraceName(Struct, frozen=True):
    """`taken_ns` is 0 where it is not known."""

    id: str
    title: str
    taken_ns: int = 0


class Hit(Struct, frozen=True):
    rank: int
    row: int
    span: int
    start_ns: int
    duration_ns: int
    name: str


class Hits(Struct, frozen=True):
    """`total` matches; the first of them by time are listed."""

    total: int
    total_ns: int
    hits: list[Hit]


class Total(Struct, frozen=True):
    name: str
    activity: int
    count: int
    total_ns: int


class Totals(Struct, frozen=True):
    """What happened in a stretch of time on the rows asked for, the longest in sum first."""

    from_ns: int
    to_ns: int
    spans: int
    names: int
    rows: list[Total]
