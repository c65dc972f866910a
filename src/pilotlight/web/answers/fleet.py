"""What the API answers about all jobs and machines."""

from __future__ import annotations

from msgspec import Struct


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
    """`step_ns` is the mean of the last ten minutes of a running job, of all steps of another;
    `change_ratio` compares it with what `earlier` names. `trend_ns` is the mean step in equal parts
    of the time asked for, or since a job of less than two hours began. Lost hours are step time
    that was no compute. Hours are of GPUs, or of ranks where a job has none."""

    job: str
    cluster: str
    state: str
    started_ns: int
    updated_ns: int
    ranks: int
    nodes: int
    attempts: int
    step_ns: float | None
    change_ratio: float | None
    earlier: str
    mfu_ratio: float | None
    trend_ns: list[int | None]
    parts_ns: dict[str, int]
    open_findings: int
    worst_finding: str
    worst_gain_ratio: float | None
    gpu_hours: float
    has_gpus: bool
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
