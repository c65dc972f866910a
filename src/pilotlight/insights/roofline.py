"""How close operators come to what the hardware can do, and what limits them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace

import numpy as np

from pilotlight.insights.kernel import short_name
from pilotlight.insights.measured import NOT_MEASURED, MeasuredKernels
from pilotlight.insights.rank import RankView
from pilotlight.model.cost import Cost, cost_of
from pilotlight.model.hardware import Gpu
from pilotlight.model.kernel_cost import Grid, cost_of_kernel
from pilotlight.model.measured_cost import Measured
from pilotlight.trace.detail import Operator, Operators
from pilotlight.trace.distinct import distinct, places
from pilotlight.trace.trace import NONE, Bool, Int64, Kind, Spans, UInt32

MODEL_WRONG_FROM = 1.1
LATENCY_BELOW = 0.4
SHORT_NS = 10_000

COMPUTE = "compute"
MEMORY = "memory"
LATENCY = "latency"
WRONG = "our model is wrong"

# How well the work of a row is known.
MEASURED, HIGH, LOW = "measured", "high", "low"


@dataclass(frozen=True)
class RooflineRow:
    """All launches of an operator with the same shapes, or of a kernel with the same grid (then
    with low confidence, unless its work was measured). Ratios are parts of the achievable."""

    operator: str
    shapes: str
    count: int
    total_ns: int
    flops: float
    bytes: float
    peak: str
    roofline_ratio: float
    limit: str
    reason: str
    confidence: str = HIGH


@dataclass(frozen=True)
class Roofline:
    """`mfu_ratio`: arithmetic of the operators whose model is not wrong over the whole time at the
    datasheet's peak. `covered_ratio`: the part of the kernel time whose work is known,
    `measured_ratio`: that of which it was measured."""

    gpu: str
    rows: tuple[RooflineRow, ...]
    mfu_ratio: float
    covered_ratio: float
    measured_ratio: float = 0.0


def roofline(
    view: RankView, operators: Operators, gpu: Gpu, measured: MeasuredKernels = NOT_MEASURED
) -> Roofline:
    """Rows by time, the longest first. What was measured counts instead of the model."""
    costs = [cost_of(kind) for kind in operators.kinds]
    owner = _owners(view, operators, costs)
    kernels = view.device.kind == Kind.KERNEL
    grid = places(view.trace.detail.grids.correlation, view.device.correlation)
    launches = _launches(view, operators, owner, grid, measured)
    rows: list[RooflineRow] = []
    flops_at_peak_s = covered_ns = 0.0
    for kind, launched in launches.items():
        model = costs[kind]
        if model is None:
            continue
        cost = launched.cost(model)
        count = launched.operators
        covered_ns += launched.total_ns
        peak = gpu.peak(cost.peak)
        made = _row(operators, kind, cost, count, launched.total_ns, gpu)
        if peak and (made is None or made.limit != WRONG):
            flops_at_peak_s += count * cost.flops / (peak * 1e12)
        if made is not None:
            rows.append(replace(made, confidence=MEASURED if cost is not model else HIGH))
    others = _kernel_rows(view, owner == NONE, grid, gpu, measured)
    covered_ns += sum(row.total_ns for row in others)
    rows = sorted((*rows, *others), key=lambda row: -row.total_ns)
    all_ns = float(view.device.duration_ns[kernels].sum())
    return Roofline(
        gpu.name,
        tuple(rows),
        flops_at_peak_s / (view.traced_ns / 1e9),
        covered_ns / all_ns if all_ns else 0.0,
        sum(r.total_ns for r in rows if r.confidence == MEASURED) / all_ns if all_ns else 0.0,
    )


@dataclass
class _Launches:
    """The kernels of all operators of one kind."""

    operators: int
    total_ns: int = 0
    measured: list[tuple[int, Measured]] = field(default_factory=list)
    is_measured: bool = True

    def add(self, count: int, total_ns: int, found: Measured | None) -> None:
        self.total_ns += total_ns
        self.is_measured &= found is not None
        if found is not None:
            self.measured.append((count, found))

    def cost(self, model: Cost) -> Cost:
        """Of one operator: what its kernels did, if that is known of all of them."""
        if not self.is_measured:
            return model
        flops = [n * one.flops for n, one in self.measured if one.flops is not None]
        sizes = [n * one.bytes for n, one in self.measured if one.bytes is not None]
        whole = len(self.measured)
        _, most = max(self.measured, key=lambda counted: counted[1].flops or 0.0)
        return Measured(
            sum(flops) / self.operators if len(flops) == whole else None,
            sum(sizes) / self.operators if len(sizes) == whole else None,
            most.peak,
        ).cost(model)


def _launches(
    view: RankView, operators: Operators, owner: Int64, grid: Int64, measured: MeasuredKernels
) -> dict[int, _Launches]:
    """By the kind of the operators, for which the kernels have a row in `owner`, in `grid` one of
    the trace's grids."""
    owned = np.flatnonzero((view.device.kind == Kind.KERNEL) & (owner != NONE))
    kernels, kind = view.device.take(owned), operators.kind[owner[owned]]
    sizes = (
        np.append(view.trace.detail.grids.blocks, 0),
        np.append(view.trace.detail.grids.threads, 0),
    )
    blocks, threads = (column[grid[owned]] for column in sizes)
    operator_counts = np.bincount(operators.kind[np.unique(owner[owned])])
    found: dict[int, _Launches] = {}
    for first, count, total_ns in _totals(kernels, kind, kernels.name, blocks, threads):
        number = int(kind[first])
        launched = found.setdefault(number, _Launches(int(operator_counts[number])))
        name = view.trace.names[kernels.name[first]]
        launched.add(count, total_ns, measured.find(name, int(blocks[first]), int(threads[first])))
    return found


def _totals(kernels: Spans, *columns: Int64 | UInt32) -> Iterator[tuple[int, int, int]]:
    """A row of each distinct combination, how often there is one, and how long they take."""
    firsts, group = distinct(*columns)
    totals = np.bincount(group, kernels.duration_ns).astype(np.int64)
    return zip(firsts.tolist(), np.bincount(group).tolist(), totals.tolist(), strict=True)


def _owners(view: RankView, operators: Operators, costs: list[Cost | None]) -> Int64:
    """For each device span the innermost operator with a model around its launch call, or -1."""
    owner = np.full(len(view.device), NONE, np.int64)
    modelled = np.array([cost is not None for cost in costs], np.bool_)
    if not len(operators.kind) or not modelled.any():
        return owner
    rows = np.flatnonzero(modelled[operators.kind])
    known = np.flatnonzero(view.launch != NONE)
    calls = view.launch[known]
    number_of = {thread: number for number, thread in enumerate(operators.threads)}
    thread_of = np.array([number_of.get(lane.thread, NONE) for lane in view.trace.lanes])
    threads = thread_of[view.calls.lane[calls]]
    times = view.calls.start_ns[calls]
    for thread in np.unique(operators.thread[rows]):
        chosen = np.flatnonzero(threads == thread)
        # Innermost: the one that began last among those that have not ended.
        mine = rows[operators.thread[rows] == thread]
        order = mine[np.argsort(operators.start_ns[mine], kind="stable")]
        starts = operators.start_ns[order]
        ends = starts + operators.duration_ns[order]
        place = np.searchsorted(starts, times[chosen], side="right") - 1
        for _ in range(4):
            outside = (place >= 0) & (ends[np.maximum(place, 0)] < times[chosen])
            place = np.where(outside, place - 1, place)
        inside = (place >= 0) & (ends[np.maximum(place, 0)] >= times[chosen])
        owner[known[chosen[inside]]] = order[place[inside]]
    return owner


def _kernel_rows(
    view: RankView, wanted: Bool, grid: Int64, gpu: Gpu, measured: MeasuredKernels
) -> list[RooflineRow]:
    """Kernels that no operator with a model launched, by name and grid."""
    chosen = np.flatnonzero(wanted & (view.device.kind == Kind.KERNEL) & (grid != NONE))
    kernels, grids = view.device.take(chosen), view.trace.detail.grids
    along = grids.along if len(grids.along) else np.zeros(len(grids.blocks), np.int64)
    sizes = tuple(column[grid[chosen]] for column in (grids.blocks, grids.threads, along))
    rows = []
    for first, count, total_ns in _totals(kernels, kernels.name, *sizes):
        name, size = view.trace.names[kernels.name[first]], Grid(*(int(c[first]) for c in sizes))
        guess = cost_of_kernel(name, size)
        found = measured.find(name, size.blocks, size.threads)
        cost = found.cost(guess) if found else guess
        if cost is None:
            continue
        text = f"grid {size.blocks} x {size.threads}"
        row = _timed(short_name(name), text, cost, count, total_ns, gpu)
        if row is not None:
            rows.append(replace(row, confidence=MEASURED if found else LOW))
    return rows


def _row(
    operators: Operators, kind: int, cost: Cost, count: int, total_ns: int, gpu: Gpu
) -> RooflineRow | None:
    operator = operators.kinds[kind]
    return _timed(operator.name, shape_text(operator), cost, count, total_ns, gpu)


def shape_text(operator: Operator) -> str:
    return " ".join("x".join(map(str, shape)) for shape in operator.shapes if shape)[:80]


def _timed(
    name: str, shapes: str, cost: Cost, count: int, total_ns: int, gpu: Gpu
) -> RooflineRow | None:
    peak, memory = gpu.achievable(cost.peak), gpu.achievable("memory_gb_per_s")
    if peak is None or memory is None or not total_ns:
        return None
    each_s = total_ns / count / 1e9
    arithmetic, traffic = cost.flops / (peak * 1e12) / each_s, cost.bytes / (memory * 1e9) / each_s
    limit, reason = _limit(arithmetic, traffic, each_s, cost)
    ratio = max(arithmetic, traffic)
    return RooflineRow(
        name, shapes, count, total_ns, cost.flops, cost.bytes, cost.peak, ratio, limit, reason
    )


def _limit(arithmetic: float, traffic: float, each_s: float, cost: Cost) -> tuple[str, str]:
    if max(arithmetic, traffic) > MODEL_WRONG_FROM:
        return WRONG, "faster than the hardware could be: the peak or the bytes are not right"
    if max(arithmetic, traffic) < LATENCY_BELOW:
        short = each_s * 1e9 < SHORT_NS
        return LATENCY, "too short to fill the device" if short else "neither unit is busy"
    intensity = cost.flops / max(cost.bytes, 1.0)  # all of it can come from a cache
    if arithmetic >= traffic:
        return COMPUTE, f"{intensity:.0f} operations for each byte"
    return MEMORY, f"only {intensity:.1f} operations for each byte"
