"""Kernels as Nsight Compute measured them, found again among those of a trace."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field

from pilotlight.insights.kernel import short_name
from pilotlight.model.measured_cost import Measured, measured_of
from pilotlight.trace.trace import Trace

Key = tuple[str, int, int]  # name, blocks of the grid, threads of a block


@dataclass(frozen=True)
class MeasuredKernels:
    """By whole names and, for reports that print only functions, by short ones."""

    whole: Mapping[Key, Measured] = field(default_factory=dict)
    short: Mapping[Key, Measured] = field(default_factory=dict)

    def find(self, name: str, blocks: int, threads: int) -> Measured | None:
        found = self.whole.get((name, blocks, threads))
        return found or self.short.get((short_name(name), blocks, threads))


NOT_MEASURED = MeasuredKernels()


def measured_kernels(trace: Trace) -> MeasuredKernels:
    """The means of launches with the same name and grid, of a trace read from ncu's CSV."""
    metrics: dict[int, dict[str, float]] = defaultdict(dict)
    for name, argument in trace.arguments.items():
        if not argument.texts:
            for row, value in zip(argument.rows.tolist(), argument.values.tolist(), strict=True):
                metrics[row][name] = value
    grids = trace.detail.grids
    sizes = dict(
        zip(
            grids.correlation.tolist(),
            zip(grids.blocks.tolist(), grids.threads.tolist(), strict=True),
            strict=True,
        )
    )
    whole: dict[Key, list[Measured]] = defaultdict(list)
    short: dict[Key, list[Measured]] = defaultdict(list)
    columns = (trace.spans.name.tolist(), trace.spans.correlation.tolist())
    for row, (number, correlation) in enumerate(zip(*columns, strict=True)):
        measured = measured_of(metrics[row])
        if measured is not None and correlation in sizes:
            name, (blocks, threads) = trace.names[number], sizes[correlation]
            whole[name, blocks, threads].append(measured)
            short[short_name(name), blocks, threads].append(measured)
    return MeasuredKernels(
        {key: _mean(rows) for key, rows in whole.items()},
        {key: _mean(rows) for key, rows in short.items()},
    )


def _mean(rows: list[Measured]) -> Measured:
    def mean(values: list[float]) -> float | None:
        return sum(values) / len(values) if values else None

    return Measured(
        mean([row.flops for row in rows if row.flops is not None]),
        mean([row.bytes for row in rows if row.bytes is not None]),
        rows[0].peak,
    )
