"""Matrix products and convolutions without shapes: what their names and grids tell."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from pilotlight.insights.grouped import grouped
from pilotlight.insights.kernel import Category, category, short_name
from pilotlight.insights.measured import MeasuredKernels
from pilotlight.insights.rank import RankView
from pilotlight.model.hardware import Gpu
from pilotlight.model.tile import precision_of, tile_of
from pilotlight.trace.trace import NONE, Bool, Int64, Kind

_KINDS = (Category.GEMM, Category.CONVOLUTION)
NO_TILE = "takes its tiles itself: neither name nor grid tell its size"
NO_SUM = "the terms of its sums are not told: about so many at most"
FEW_TERMS = "about so many terms at most: writing the result takes longer than adding them up"
NO_PRECISION = "neither shapes nor a precision in the name"


@dataclass(frozen=True)
class Product:
    """All launches of a kernel with the same grid. The result has at most so many elements (less
    where tiles at the edge are not full, or where several blocks share one); at the achievable peak
    a launch could add up `most_terms` for each of as many. None where it is not told."""

    kernel: str
    grid: str
    count: int
    total_ns: int
    peak: str
    result_elements: int | None
    most_terms: float | None
    reason: str


def products_without_shapes(
    view: RankView, wanted: Bool, grid: Int64, gpu: Gpu, measured: MeasuredKernels
) -> tuple[Product, ...]:
    """Of the wanted kernels, in `grid` with their row of the trace's grids; the longest first."""
    of_kind = np.array([category(name) in _KINDS for name in view.trace.names], np.bool_)
    is_product = of_kind[view.device.name] & (view.device.kind == Kind.KERNEL)
    chosen = np.flatnonzero(wanted & is_product & (grid != NONE))
    kernels, grids = view.device.take(chosen), view.trace.detail.grids
    blocks, threads = grids.blocks[grid[chosen]], grids.threads[grid[chosen]]
    rows = []
    for first, count, total_ns in grouped(kernels, kernels.name, blocks, threads):
        name, size = (
            view.trace.names[kernels.name[first]],
            (int(blocks[first]), int(threads[first])),
        )
        if measured.find(name, *size) is None and total_ns:
            rows.append(_product(name, size, count, total_ns, gpu))
    return tuple(sorted(rows, key=lambda row: -row.total_ns))


def _product(name: str, grid: tuple[int, int], count: int, total_ns: int, gpu: Gpu) -> Product:
    tile, (precision, size) = tile_of(name), precision_of(name) or ("", 0)
    elements = tile[0] * tile[1] * grid[0] if tile else None
    peak, memory = gpu.achievable(precision), gpu.achievable("memory_gb_per_s")
    terms = None
    reason = NO_TILE if elements is None else NO_PRECISION
    if elements and peak and memory:
        a_second = peak * 1e12 / 2
        terms = a_second * (total_ns / count / 1e9) / elements
        reason = FEW_TERMS if terms / a_second < size / (memory * 1e9) else NO_SUM
    text = f"{grid[0]} x {grid[1]}"
    return Product(short_name(name), text, count, total_ns, precision, elements, terms, reason)
