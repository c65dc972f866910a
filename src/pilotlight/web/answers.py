"""What the API answers; scripts/api_types.py makes the TypeScript types of the page from it."""

from __future__ import annotations

from msgspec import Struct

from pilotlight.store.queries import Attempt, CaptureRow, Cost, FindingRow, JobRow, RankRow, Waste


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
    """A set of traces that belong to one job. `levels` is the number of levels of detail,
    `path_ratios` is what the critical path consists of, `clock_offset_ns` is how far the furthest
    clock was off before the ranks were put on one."""

    id: str
    title: str
    headline: str
    step_ns: float | None
    length_ns: int
    levels: int
    ranks: list[Rank]
    findings: list[Finding]
    not_checked: list[NotChecked]
    kernels: list[Kernel]
    counters: list[CounterLine]
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


class RooflineRow(Struct, frozen=True):
    operator: str
    shapes: str
    count: int
    total_ns: int
    flops: float
    bytes: float
    roofline_ratio: float
    limit: str
    reason: str


class Peak(Struct, frozen=True):
    """What a GPU can do: operations a second and bytes a second, as far as programs reach it."""

    gpu: str
    flops: float
    bytes: float


class Roofline(Struct, frozen=True):
    """The first of the peaks is that of the job's GPU. `missing`: why there are no rows."""

    gpu: str
    mfu_ratio: float
    covered_ratio: float
    rows: list[RooflineRow]
    peaks: list[Peak]
    missing: str = ""


class RankPoint(Struct, frozen=True):
    """Where a rank's GPU stands under its roof, by the activity of its units: `flops` and `bytes`
    are a second; ratios are of what the units could do at the datasheet's clock."""

    rank: int
    node: str
    gpu: int
    tensor_ratio: float
    memory_ratio: float
    flops: float
    bytes: float
    limit: str


class KernelKind(Struct, frozen=True):
    """A kernel with what limits kernels of its kind as a rule, told by its name alone."""

    name: str
    category: str
    limit: str
    count: int
    total_ns: int
    ratio: float


class JobRoofline(Struct, frozen=True):
    """Of a running job, without shapes. `missing`: why there are no points, or no roof. `captures`
    have the detail that a roofline by operators needs."""

    gpu: str
    peaks: list[Peak]
    points: list[RankPoint]
    kernels: list[KernelKind]
    kinds_ns: dict[str, int]
    captures: list[CaptureRow]
    missing: str
    is_partial: bool


class GpuNow(Struct, frozen=True):
    """Means of the last minutes; None where nothing was measured."""

    gpu: int
    busy_ratio: float | None = None
    temperature_c: float | None = None
    clock_mhz: float | None = None
    throttle_ratio: float | None = None


class Node(Struct, frozen=True):
    node: str
    cluster: str
    state: str
    jobs: list[str]
    open_findings: int
    gpus: list[GpuNow]


class FleetJob(Struct, frozen=True):
    """`trend_ns` is the mean step in equal parts of the time asked for; `change_ratio` compares its
    last part with those before. Lost hours are step time that was no compute."""

    job: str
    cluster: str
    state: str
    started_ns: int
    updated_ns: int
    ranks: int
    nodes: int
    attempts: int
    step_ns: int | None
    change_ratio: float | None
    mfu_ratio: float | None
    trend_ns: list[int | None]
    parts_ns: dict[str, int]
    open_findings: int
    worst_finding: str
    worst_gain_ratio: float | None
    gpu_hours: float
    lost_hours: float | None
    lost_by_cause_hours: dict[str, float]
    records_lost: int


class Fleet(Struct, frozen=True):
    now_ns: int
    from_ns: int
    to_ns: int
    headline: str
    jobs: list[FleetJob]
    nodes: list[Node]
    is_partial: bool


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
    """`step_ns` is the mean of the last ten minutes, `earlier_step_ns` of the day before them."""

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


class CapturedNode(Struct, frozen=True):
    """`state` is waiting, asked, stored, failed or expired; `why` tells it where it failed."""

    node: str
    ranks: list[int]
    state: str
    why: str
    bytes: int


class CaptureDetail(Struct, frozen=True):
    """`is_open`: some nodes have not answered yet."""

    now_ns: int
    row: CaptureRow
    is_open: bool
    nodes: list[CapturedNode]


class Side(Struct, frozen=True):
    job: str
    from_ns: int
    to_ns: int
    steps: int


class Difference(Struct, frozen=True):
    """Nanoseconds a step."""

    what: str
    before_ns: float
    after_ns: float


class FactChange(Struct, frozen=True):
    name: str
    before: str
    after: str


class Comparison(Struct, frozen=True):
    """`noise_probability`: how often chance alone makes such a difference; None: too few steps."""

    headline: str
    before: Side
    after: Side
    noise_probability: float | None
    is_noise: bool | None
    step: Difference
    parts: list[Difference]
    kernels: list[Difference]
    facts: list[FactChange]
    is_partial: bool


class About(Struct, frozen=True):
    """`kind` is collector or viewer."""

    kind: str
    version: str
