"""How close operators come to what the hardware can do, and what limits them."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np

from pilotlight.insights.grouped import grouped
from pilotlight.insights.kernel import short_name
from pilotlight.insights.measured import NOT_MEASURED, MeasuredKernels
from pilotlight.insights.product import Product, products_without_shapes
from pilotlight.insights.rank import RankView
from pilotlight.model.cost import Cost, cost_of
from pilotlight.model.hardware import Gpu
from pilotlight.model.kernel_cost import Grid, cost_of_kernel
from pilotlight.model.measured_cost import Measured
from pilotlight.model.tile import TF32, winograd_ratio
from pilotlight.trace.detail import Operator, Operators
from pilotlight.trace.detail_row import detail_rows
from pilotlight.trace.trace import NONE, Bool, Int64, Kind

MODEL_WRONG_FROM = 1.1
LATENCY_BELOW = 0.4
SHORT_NS = 10_000

COMPUTE = "compute"
MEMORY = "memory"
LATENCY = "latency"
LAUNCH = "launch"
WRONG = "our model is wrong"

CACHED = "faster than memory: its data fit into the cache"

# How well the work of a row is known.
MEASURED, HIGH, LOW = "measured", "high", "low"
_KNOWN_WORK_RATIO = 0.5
_FEW_PRODUCTS_RATIO = 0.05


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
    """`mfu_ratio`: arithmetic of the rows whose model is not wrong over the whole time at the
    datasheet's peak. `covered_ratio`: the part of the kernel time whose work is known,
    `measured_ratio`: that of which it was measured. `products` have no shapes: of them only bounds
    are known, and their arithmetic is not in `mfu_ratio`; `products_ratio` is their part of the
    kernel time."""

    gpu: str
    rows: tuple[RooflineRow, ...]
    mfu_ratio: float
    covered_ratio: float
    measured_ratio: float = 0.0
    products: tuple[Product, ...] = ()
    products_ratio: float = 0.0

    @property
    def is_mfu_known(self) -> bool:
        """Of work that is not known nothing can be said."""
        return self.covered_ratio >= _KNOWN_WORK_RATIO

    @property
    def is_mfu_a_bound(self) -> bool:
        """Whether products of unknown size take so much of the time that MFU can be far higher."""
        return self.products_ratio > _FEW_PRODUCTS_RATIO


def roofline(
    view: RankView, operators: Operators, gpu: Gpu, measured: MeasuredKernels = NOT_MEASURED
) -> Roofline:
    """Rows by time, the longest first. What was measured counts instead of the model."""
    costs = [cost_of(kind) for kind in operators.kinds]
    owner = _owners(view, operators, costs)
    kernels = view.device.kind == Kind.KERNEL
    grid = detail_rows(view.trace.detail.grids, view.device)
    launches = _launches(view, operators, owner, grid, measured)
    call_ns = _call_ns(view)
    rows: list[RooflineRow] = []
    flops_at_peak_s = covered_ns = 0.0
    for kind, launched in launches.items():
        model = costs[kind]
        if model is None:
            continue
        cost = launched.cost(model)
        count = launched.operators
        each = _Each(launched.total_ns / count, launched.total_ns / launched.kernels, call_ns)
        covered_ns += launched.total_ns
        peak = gpu.peak(cost.peak)
        made = _row(operators, kind, cost, count, each, gpu)
        if peak and (made is None or made.limit != WRONG):
            flops_at_peak_s += count * cost.flops / (peak * 1e12)
        if made is not None:
            rows.append(replace(made, confidence=MEASURED if launched.is_measured else HIGH))
    others = _kernel_rows(view, owner == NONE, grid, gpu, measured, call_ns)
    covered_ns += sum(row.total_ns for row in others)
    flops_at_peak_s += sum(
        row.count * row.flops / (peak * 1e12)
        for row in others
        if row.limit != WRONG and (peak := gpu.peak(row.peak))
    )
    rows = sorted((*rows, *others), key=lambda row: -row.total_ns)
    all_ns = float(view.device.duration_ns[kernels].sum())
    products = products_without_shapes(view, owner == NONE, grid, gpu, measured)
    return Roofline(
        gpu.name,
        tuple(rows),
        flops_at_peak_s / (view.traced_ns / 1e9),
        covered_ns / all_ns if all_ns else 0.0,
        sum(r.total_ns for r in rows if r.confidence == MEASURED) / all_ns if all_ns else 0.0,
        products,
        sum(p.total_ns for p in products) / all_ns if all_ns else 0.0,
    )


@dataclass
class _Launches:
    """The kernels of all operators of one kind."""

    operators: int
    total_ns: int = 0
    kernels: int = 0
    is_tf32: bool = False
    saved_ratio: float = 1.0
    measured: list[tuple[int, Measured]] = field(default_factory=list)
    is_measured: bool = True

    def add(self, name: str, count: int, total_ns: int, found: Measured | None) -> None:
        self.total_ns += total_ns
        self.kernels += count
        self.is_tf32 |= TF32.search(name) is not None
        self.saved_ratio = max(self.saved_ratio, winograd_ratio(name))
        self.is_measured &= found is not None
        if found is not None:
            self.measured.append((count, found))

    def cost(self, model: Cost) -> Cost:
        """Of one operator: what its kernels did, if that is known of all of them."""
        if not self.is_measured:
            peak = "tf32" if self._rounds(model) else model.peak
            return replace(model, flops=model.flops / self.saved_ratio, peak=peak)
        flops = [n * one.flops for n, one in self.measured if one.flops is not None]
        sizes = [n * one.bytes for n, one in self.measured if one.bytes is not None]
        whole = len(self.measured)
        _, most = max(self.measured, key=lambda counted: counted[1].flops or 0.0)
        return Measured(
            sum(flops) / self.operators if len(flops) == whole else None,
            sum(sizes) / self.operators if len(sizes) == whole else None,
            most.peak,
        ).cost(model)

    def _rounds(self, model: Cost) -> bool:
        """Whether products of fp32 run on tensor cores, which round their factors."""
        return self.is_tf32 and model.peak == "fp32"


@dataclass(frozen=True)
class _Each:
    """Nanoseconds of one operator, of one of its kernels, and of a launch call."""

    operator_ns: float
    kernel_ns: float
    call_ns: float


def _call_ns(view: RankView) -> float:
    """The median; 0 where the trace has no launch calls."""
    known = view.launch[view.launch != NONE]
    return float(np.median(view.calls.duration_ns[known])) if len(known) else 0.0


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
    for first, count, total_ns in grouped(kernels, kind, kernels.name, blocks, threads):
        number = int(kind[first])
        launched = found.setdefault(number, _Launches(int(operator_counts[number])))
        name = view.trace.names[kernels.name[first]]
        launched.add(
            name, count, total_ns, measured.find(name, int(blocks[first]), int(threads[first]))
        )
    return found


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
    view: RankView, wanted: Bool, grid: Int64, gpu: Gpu, measured: MeasuredKernels, call_ns: float
) -> list[RooflineRow]:
    """Kernels that no operator with a model launched, by name and grid."""
    chosen = np.flatnonzero(wanted & (view.device.kind == Kind.KERNEL) & (grid != NONE))
    kernels, grids = view.device.take(chosen), view.trace.detail.grids
    along = grids.along if len(grids.along) else np.zeros(len(grids.blocks), np.int64)
    sizes = tuple(column[grid[chosen]] for column in (grids.blocks, grids.threads, along))
    rows = []
    for first, count, total_ns in grouped(kernels, kernels.name, *sizes):
        name, size = view.trace.names[kernels.name[first]], Grid(*(int(c[first]) for c in sizes))
        guess = cost_of_kernel(name, size)
        found = measured.find(name, size.blocks, size.threads)
        cost = found.cost(guess) if found else guess
        if cost is None:
            continue
        text = f"grid {size.blocks} x {size.threads}"
        each = _Each(total_ns / count, total_ns / count, call_ns)
        row = _timed(short_name(name), text, cost, count, each, gpu)
        if row is not None:
            rows.append(replace(row, confidence=MEASURED if found else LOW))
    return rows


def _row(
    operators: Operators, kind: int, cost: Cost, count: int, each: _Each, gpu: Gpu
) -> RooflineRow | None:
    operator = operators.kinds[kind]
    return _timed(operator.name, shape_text(operator), cost, count, each, gpu)


def shape_text(operator: Operator) -> str:
    return " ".join("x".join(map(str, shape)) for shape in operator.shapes if shape)[:80]


def _timed(
    name: str, shapes: str, cost: Cost, count: int, each: _Each, gpu: Gpu
) -> RooflineRow | None:
    peak, memory = gpu.achievable(cost.peak), gpu.achievable("memory_gb_per_s")
    if peak is None or memory is None or not each.operator_ns:
        return None
    each_s = each.operator_ns / 1e9
    arithmetic, traffic = cost.flops / (peak * 1e12) / each_s, cost.bytes / (memory * 1e9) / each_s
    is_cached = cost.bytes < (gpu.peak("l2_mb") or 0.0) * 1e6
    limit, reason = _limit(arithmetic, traffic, each, cost)
    if limit == WRONG and is_cached and arithmetic <= MODEL_WRONG_FROM:
        reason = CACHED
    ratio, total_ns = max(arithmetic, traffic), round(count * each.operator_ns)
    return RooflineRow(
        name, shapes, count, total_ns, cost.flops, cost.bytes, cost.peak, ratio, limit, reason
    )


def _limit(arithmetic: float, traffic: float, each: _Each, cost: Cost) -> tuple[str, str]:
    if max(arithmetic, traffic) > MODEL_WRONG_FROM:
        return WRONG, "faster than the hardware could be: the peak or the bytes are not right"
    if max(arithmetic, traffic) < LATENCY_BELOW:
        short = each.kernel_ns < SHORT_NS
        if short and each.kernel_ns < each.call_ns:
            return LAUNCH, f"shorter than its launch call ({each.call_ns / 1000:.1f} µs)"
        return LATENCY, "too short to fill the device" if short else "neither unit is busy"
    intensity = cost.flops / max(cost.bytes, 1.0)  # all of it can come from a cache
    if arithmetic >= traffic:
        return COMPUTE, f"{intensity:.0f} operations for each byte"
    return MEMORY, f"only {intensity:.1f} operations for each byte"
