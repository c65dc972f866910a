"""How close operators come to what the hardware can do, and what limits them."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, replace

import numpy as np

from pilotlight.insights.kernel import short_name
from pilotlight.insights.rank import RankView
from pilotlight.model.cost import Cost, cost_of
from pilotlight.model.hardware import Gpu
from pilotlight.model.kernel_cost import cost_of_kernel
from pilotlight.trace.detail import Operators
from pilotlight.trace.trace import NONE, Bool, Int64, Kind

MODEL_WRONG_FROM = 1.1
LATENCY_BELOW = 0.4
SHORT_NS = 10_000

COMPUTE = "compute"
MEMORY = "memory"
LATENCY = "latency"
WRONG = "our model is wrong"


@dataclass(frozen=True)
class RooflineRow:
    """All launches of an operator with the same shapes, or of a kernel with the same grid (then
    with low confidence). Ratios are parts of the achievable."""

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
    confidence: str = "high"


@dataclass(frozen=True)
class Roofline:
    """`mfu_ratio`: arithmetic of the operators with a model over the whole time at the datasheet's
    peak. `covered_ratio`: the part of the kernel time that has a model."""

    gpu: str
    rows: tuple[RooflineRow, ...]
    mfu_ratio: float
    covered_ratio: float


def roofline(view: RankView, operators: Operators, gpu: Gpu) -> Roofline:
    """Rows by time, the longest first."""
    costs = [cost_of(kind) for kind in operators.kinds]
    owner = _owners(view, operators, costs)
    kernels = view.device.kind == Kind.KERNEL
    launches: dict[int, dict[int, int]] = defaultdict(dict)
    for row, length in zip(
        owner[kernels].tolist(), view.device.duration_ns[kernels].tolist(), strict=True
    ):
        if row != NONE:
            kind = int(operators.kind[row])
            launches[kind][row] = launches[kind].get(row, 0) + length
    rows: list[RooflineRow] = []
    flops_at_peak_s = covered_ns = 0.0
    for kind, by_row in launches.items():
        cost = costs[kind]
        if cost is None:
            continue
        total_ns = sum(by_row.values())
        covered_ns += total_ns
        peak = gpu.peak(cost.peak)
        if peak:
            flops_at_peak_s += len(by_row) * cost.flops / (peak * 1e12)
        found = _row(operators, kind, cost, len(by_row), total_ns, gpu)
        if found is not None:
            rows.append(found)
    guessed = _kernel_rows(view, owner == NONE, gpu)
    covered_ns += sum(row.total_ns for row in guessed)
    rows = sorted((*rows, *guessed), key=lambda row: -row.total_ns)
    all_ns = float(view.device.duration_ns[kernels].sum())
    return Roofline(
        gpu.name,
        tuple(rows),
        flops_at_peak_s / (view.whole.window_ns / 1e9),
        covered_ns / all_ns if all_ns else 0.0,
    )


def _owners(view: RankView, operators: Operators, costs: list[Cost | None]) -> Int64:
    """For each device span the innermost operator with a model around its launch call, or -1."""
    owner = np.full(len(view.device), NONE, np.int64)
    modelled = np.array([cost is not None for cost in costs], np.bool_)
    if not len(operators.kind) or not modelled.any():
        return owner
    rows = np.flatnonzero(modelled[operators.kind])
    by_thread: dict[str, list[int]] = defaultdict(list)
    for row in rows.tolist():
        by_thread[operators.thread[row]].append(row)
    known = np.flatnonzero(view.launch != NONE)
    calls = view.launch[known]
    threads = np.array([lane.thread for lane in view.trace.lanes])[view.calls.lane[calls]]
    times = view.calls.start_ns[calls]
    for thread, mine in by_thread.items():
        chosen = np.flatnonzero(threads == thread)
        # Innermost: the one that began last among those that have not ended.
        order = np.array(sorted(mine, key=lambda row: int(operators.start_ns[row])))
        starts = operators.start_ns[order]
        ends = starts + operators.duration_ns[order]
        place = np.searchsorted(starts, times[chosen], side="right") - 1
        for _ in range(4):
            outside = (place >= 0) & (ends[np.maximum(place, 0)] < times[chosen])
            place = np.where(outside, place - 1, place)
        inside = (place >= 0) & (ends[np.maximum(place, 0)] >= times[chosen])
        owner[known[chosen[inside]]] = order[place[inside]]
    return owner


def _kernel_rows(view: RankView, wanted: Bool, gpu: Gpu) -> list[RooflineRow]:
    """Kernels that no operator with a model launched, by name and grid."""
    grids = view.trace.detail.grids
    grid_of = {
        correlation: (blocks, threads)
        for correlation, blocks, threads in zip(
            grids.correlation.tolist(), grids.blocks.tolist(), grids.threads.tolist(), strict=True
        )
    }
    kernels = view.device.take(wanted & (view.device.kind == Kind.KERNEL))
    totals: dict[tuple[int, int, int], list[int]] = defaultdict(lambda: [0, 0])
    columns = (kernels.name, kernels.correlation, kernels.duration_ns)
    for name, correlation, length in zip(*(c.tolist() for c in columns), strict=True):
        if correlation in grid_of:
            blocks, threads = grid_of[correlation]
            entry = totals[name, blocks, threads]
            entry[0] += 1
            entry[1] += length
    rows = []
    for (name, blocks, threads), (count, total_ns) in totals.items():
        cost = cost_of_kernel(view.trace.names[name], blocks, threads)
        if cost is None:
            continue
        text = short_name(view.trace.names[name])
        row = _measured(text, f"grid {blocks} x {threads}", cost, count, total_ns, gpu)
        if row is not None:
            rows.append(replace(row, confidence="low"))
    return rows


def _row(
    operators: Operators, kind: int, cost: Cost, count: int, total_ns: int, gpu: Gpu
) -> RooflineRow | None:
    operator = operators.kinds[kind]
    shapes = " ".join("x".join(map(str, shape)) for shape in operator.shapes if shape)[:80]
    return _measured(operator.name, shapes, cost, count, total_ns, gpu)


def _measured(
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
    intensity = cost.flops / cost.bytes
    if arithmetic >= traffic:
        return COMPUTE, f"{intensity:.0f} operations for each byte"
    return MEMORY, f"only {intensity:.1f} operations for each byte"
