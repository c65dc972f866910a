"""Rules about how well kernels fit the device: aligned shapes, full waves, the roofline."""

from __future__ import annotations

from collections import Counter
from math import ceil

import numpy as np

from pilotlight.insights.finding import NO_GPU, Finding, SpanReference, Verdict, longest, percent
from pilotlight.insights.job import Job
from pilotlight.insights.kernel import Category, category
from pilotlight.insights.rank import RankView
from pilotlight.insights.roofline import (
    LATENCY,
    LAUNCH,
    LOW,
    WRONG,
    Roofline,
    RooflineRow,
    roofline,
    shape_text,
)
from pilotlight.insights.shorter import shorter_kernels
from pilotlight.model.hardware import Gpu, find_gpu
from pilotlight.model.tile import tile_of
from pilotlight.trace.detail_row import detail_rows
from pilotlight.trace.distinct import distinct
from pilotlight.trace.interval import union
from pilotlight.trace.trace import NONE, Kind

MISALIGNED_SHARE = 0.02
WAVE_EFFICIENCY = 0.75
WAVE_SHARE = 0.03
BELOW_ROOF = 0.60
ROOF_SHARE = 0.02
TARGET_LOW, TARGET_HIGH = 0.75, 1.0

_PRODUCTS = ("aten::mm", "aten::addmm", "aten::bmm", "aten::baddbmm")


def misaligned_shapes(job: Job) -> Verdict:
    """A15: sizes of products that the tensor cores have to pad."""
    found = _roofline(job)
    if isinstance(found, str):
        return Verdict(missing=found)
    view, table, _ = found
    rows = [row for row in table.rows if row.operator in _PRODUCTS and _is_misaligned(row)]
    share = sum(row.total_ns for row in rows) / view.traced_ns
    if share <= MISALIGNED_SHARE:
        return Verdict()
    # Padded, they would come as close to the roof as the best of the others.
    reach = min(1.0, max((r.roofline_ratio for r in table.rows if r not in rows), default=0.85))
    lost = sum(row.total_ns * max(0.0, 1 - row.roofline_ratio / reach) for row in rows)
    gain = lost / view.traced_ns
    worst = max(rows, key=lambda row: row.total_ns)
    finding = Finding(
        rule="A15",
        cause="misaligned",
        title="Sizes of matrix products are no multiples of 8",
        rank=view.rank,
        place=f"{worst.operator} {worst.shapes}",
        evidence=(
            f"such products take {percent(share)} of the step",
            f"the longest reaches {percent(worst.roofline_ratio)} of the roofline",
        ),
        fix="pad the vocabulary, hidden size or batch to multiples of 8 (16 for 8-bit types)",
        gain_low_ratio=0.3 * gain,
        gain_high_ratio=gain,
        confidence="low",
        spans=_operator_spans(view, worst),
    )
    return Verdict((finding,))


def wave_quantisation(job: Job) -> Verdict:
    """A16: the last wave of blocks leaves most of the device idle."""
    known = [
        (v, gpu) for v in job.ranks[:1] if (gpu := _gpu(v)) and len(v.trace.detail.grids.blocks)
    ]
    if not known:
        return Verdict(missing="no grids of the kernels, or the GPU's model is not known (--gpu)")
    findings = []
    for view, gpu in known:
        rows = _waves(view, int(gpu.peak("units") or 0))
        lost: Counter[int] = Counter()
        for number, ns, efficiency in rows:
            lost[number] += round(ns * (1 - efficiency))
        share = sum(ns for _, ns, _ in rows) / view.traced_ns
        if not rows or share <= WAVE_SHARE:
            continue
        gain = sum(lost.values()) / view.traced_ns
        longest, longest_ns, efficiency = max(rows, key=lambda row: row[1])
        findings.append(
            Finding(
                rule="A16",
                cause="waves",
                title="Products leave part of the device idle in their last wave",
                rank=view.rank,
                place=view.trace.names[longest][:60],
                evidence=(
                    f"products under {percent(WAVE_EFFICIENCY)} full take {percent(share)} of the"
                    " step",
                    f"the longest fills {percent(efficiency)}"
                    f" ({percent(longest_ns / view.traced_ns)} of the step)",
                ),
                fix="another batch or hidden size, another tile, split-K or stream-K",
                gain_low_ratio=0.3 * gain,
                gain_high_ratio=gain,
                confidence="low",
                remedies=(shorter_kernels(view, lost),),
            )
        )
    return Verdict(findings)


def below_roofline(job: Job) -> Verdict:
    """A17: an operator is far from what the hardware can do."""
    found = _roofline(job)
    if isinstance(found, str):
        return Verdict(missing=found)
    view, table, _ = found
    window_ns = view.traced_ns
    rows = [
        row
        for row in table.rows
        if row.limit != WRONG
        and row.confidence != LOW
        and row.roofline_ratio < BELOW_ROOF
        and row.total_ns > ROOF_SHARE * window_ns
    ]
    if not rows:
        return Verdict()
    low, high = (
        sum(r.total_ns * max(0.0, 1 - r.roofline_ratio / target) for r in rows) / window_ns
        for target in (TARGET_LOW, TARGET_HIGH)
    )
    worst = max(rows, key=lambda row: row.total_ns * (1 - row.roofline_ratio))
    how = f"{worst.limit}-bound" if worst.limit in (LATENCY, LAUNCH) else f"bound by {worst.limit}"
    finding = Finding(
        rule="A17",
        cause="below_roofline",
        title="Operators are far below what the device can do",
        rank=view.rank,
        place=f"{worst.operator} {worst.shapes}",
        evidence=(
            f"operators that reach less than {percent(BELOW_ROOF)} of the roofline: {len(rows)}",
            f"the costliest: {percent(worst.roofline_ratio)}, {how}, {worst.reason}",
            f"against achievable peaks of the {table.gpu}",
        ),
        fix="larger or batched operands, other kernels, fusion with the neighbours",
        gain_low_ratio=0.5 * low,
        gain_high_ratio=high,
        confidence="low",
        spans=_operator_spans(view, worst),
    )
    return Verdict((finding,))


def _operator_spans(view: RankView, row: RooflineRow) -> tuple[SpanReference, ...]:
    """The longest kernels that the operators of this row launched; their calls, if none is."""
    operators = view.trace.detail.operators
    kinds = [
        number
        for number, kind in enumerate(operators.kinds)
        if kind.name == row.operator and shape_text(kind) == row.shapes
    ]
    mine = np.isin(operators.kind, kinds)
    start_ns, duration_ns = operators.start_ns[mine], operators.duration_ns[mine]
    calls = union(start_ns, start_ns + duration_ns)
    known = np.flatnonzero(view.launch != NONE)
    launched_ns = view.calls.start_ns[view.launch[known]]
    kernels = known[calls.within_ns(launched_ns, launched_ns + 1) > 0]
    if not len(kernels):
        return longest(view.rank, row.operator, start_ns, duration_ns)
    device = view.device.take(kernels)
    return tuple(
        SpanReference(
            view.rank,
            view.trace.names[device.name[i]],
            int(device.start_ns[i]),
            int(device.duration_ns[i]),
        )
        for i in np.argsort(-device.duration_ns, kind="stable")[:3]
    )


def _roofline(job: Job) -> tuple[RankView, Roofline, Gpu] | str:
    """Of the first rank: all do the same. Text if it cannot be had."""
    if not job.ranks:
        return "no device activity"
    view = job.ranks[0]
    gpu = _gpu(view)
    if gpu is None:
        return NO_GPU
    if not view.trace.detail.operators.kinds:
        return "no shapes of operators (record_shapes=True)"
    return view, roofline(view, view.trace.detail.operators, gpu), gpu


def _is_misaligned(row: RooflineRow) -> bool:
    """Whether rows of an operand do not begin at multiples of 16 bytes: the sizes along them, of
    both operands, not how many rows there are. Types of 4 bytes and more have no such rule."""
    operands = [shape for text in row.shapes.split() if len(shape := text.split("x")) > 1]
    sizes = [int(shape[-1]) for shape in operands[:2]]
    multiple = 16 if row.peak == "fp8" else 8
    wide = row.peak in ("bf16", "fp16", "fp8")
    return wide and any(size % multiple for size in sizes if size > 1)


def _waves(view: RankView, units: int) -> list[tuple[int, int, float]]:
    """Name (its number), time and efficiency of the products whose last wave is mostly empty."""
    grids = view.trace.detail.grids
    tiles = np.array([_tile(name) for name in view.trace.names], np.int64)
    kernels = view.device.take((view.device.kind == Kind.KERNEL) & (tiles[view.device.name] > 0))
    grid = detail_rows(grids, kernels)
    kernels, blocks_of = kernels.take(grid != NONE), grids.blocks[grid[grid != NONE]]
    firsts, group = distinct(kernels.name, blocks_of)
    totals = np.bincount(group, kernels.duration_ns)
    rows = []
    for first, total_ns in zip(firsts.tolist(), totals.astype(np.int64).tolist(), strict=True):
        name, blocks = int(kernels.name[first]), int(blocks_of[first])
        at_once = units * (1 if tiles[name] >= 128 * 128 else 2)
        waves = blocks / at_once if at_once else 1.0
        efficiency = waves / ceil(waves)
        if efficiency < WAVE_EFFICIENCY:
            rows.append((name, total_ns, efficiency))
    return rows


def _tile(name: str) -> int:
    """Elements of a block's tile; 0 for kernels without tiles or that place them themselves."""
    tile = tile_of(name) if category(name) in (Category.GEMM, Category.CONVOLUTION) else None
    return tile[0] * tile[1] if tile else 0


def _gpu(view: RankView) -> Gpu | None:
    return find_gpu(view.trace.devices[0]) if view.trace.devices else None
