"""What the API answers about rooflines, of traces and of running jobs."""

from __future__ import annotations

from msgspec import Struct

from pilotlight.store.queries import CaptureRow


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
    """The first of the peaks is that of the job's GPU. `mfu_ratio` is null where too little of the
    work is known, and the least that it can be where `is_mfu_a_bound`; `missing`: why there are no
    rows."""

    gpu: str
    mfu_ratio: float | None
    covered_ratio: float
    rows: list[RooflineRow]
    peaks: list[Peak]
    missing: str = ""
    is_mfu_a_bound: bool = False


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
