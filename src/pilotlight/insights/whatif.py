"""What a job would gain if something were otherwise, by replaying its recorded graph."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from pilotlight.errors import UsageError
from pilotlight.insights.kernel import Category, category, is_memory_bound
from pilotlight.insights.recorded_graph import RecordedGraph, Role
from pilotlight.model.hardware import Gpu
from pilotlight.trace.trace import Float64

REMOVABLE = ("loader", "gc", "launch", "exposed-comm", "copies", "straggler")
TINY_LAUNCH_RATIO = 0.1


@dataclass(frozen=True)
class Scale:
    """Kernels whose name matches, as many times as long."""

    pattern: re.Pattern[str]
    factor: float


@dataclass(frozen=True)
class Whatif:
    """`replayed_ns` is the recorded job in replay; the gain is relative to it."""

    measured_ns: float
    replayed_ns: float
    changed_ns: float

    @property
    def gain_ratio(self) -> float:
        return 1 - self.changed_ns / self.replayed_ns

    @property
    def replay_error_ratio(self) -> float:
        return abs(self.replayed_ns / self.measured_ns - 1)


def parse_scale(text: str) -> Scale:
    """`REGEX=0.5x`"""
    pattern, found, factor = text.rpartition("=")
    try:
        value = float(factor.removesuffix("x"))
        if not found or not pattern or not 0 <= value <= 1000:
            raise ValueError
        return Scale(re.compile(pattern), value)
    except (ValueError, re.error):
        raise UsageError(f"--kernel {text!r}: write REGEX=FACTORx, as in 'gemm=0.5x'") from None


def without(graph: RecordedGraph, duration_ns: Float64, what: str) -> Float64:
    """The durations with a cause removed."""
    if what == "loader":
        return np.maximum(duration_ns - graph.loader_ns, 0)
    if what == "gc":
        return np.maximum(duration_ns - graph.gc_ns, 0)
    if what == "launch":
        host = (graph.role == Role.HOST) | (graph.role == Role.CALL)
        return np.where(host, duration_ns * TINY_LAUNCH_RATIO, duration_ns)
    if what == "exposed-comm":
        return np.where(graph.role == Role.COLLECTIVE, 0.0, duration_ns)
    if what == "copies":
        return np.where(graph.role == Role.COPY, 0.0, duration_ns)
    raise UsageError(f"--remove {what}: one of {', '.join(REMOVABLE)}")


def scaled(graph: RecordedGraph, duration_ns: Float64, scales: Sequence[Scale]) -> Float64:
    factors = np.ones(len(graph.names))
    for scale in scales:
        matches = [bool(scale.pattern.search(name)) for name in graph.names]
        if not any(matches):
            raise UsageError(f"--kernel: no kernel matches {scale.pattern.pattern!r}")
        factors[np.array(matches)] *= scale.factor
    kernels = np.isin(graph.role, (Role.KERNEL, Role.COPY, Role.COLLECTIVE))
    return np.where(kernels, duration_ns * factors[graph.name], duration_ns)


def on_gpu(graph: RecordedGraph, duration_ns: Float64, old: Gpu, new: Gpu) -> Float64:
    """Kernels bound by arithmetic scale with the bf16 or fp16 peak, all others with the memory."""
    compute, memory = (
        _ratio(old, new, column) for column in (_peak_column(old, new), "memory_gb_per_s")
    )
    factors = np.array([_factor(category(name), compute, memory) for name in graph.names])
    return np.where(graph.role == Role.KERNEL, duration_ns * factors[graph.name], duration_ns)


def whatif(graph: RecordedGraph, changed_ns: Float64) -> Whatif:
    replayed = graph.total_ns(graph.duration_ns)
    return Whatif(graph.measured_ns, replayed, graph.total_ns(changed_ns))


def _peak_column(old: Gpu, new: Gpu) -> str:
    return "bf16" if old.peak("bf16") and new.peak("bf16") else "fp16"


def _ratio(old: Gpu, new: Gpu, column: str) -> float:
    before, after = old.achievable(column), new.achievable(column)
    if before is None or after is None:
        raise UsageError(f"no {column} figure for {old.name} or {new.name}")
    return before / after


def _factor(found: Category, compute: float, memory: float) -> float:
    bound_by_memory = is_memory_bound(found) or found in (Category.EMBEDDING, Category.OTHER)
    return memory if bound_by_memory else compute
