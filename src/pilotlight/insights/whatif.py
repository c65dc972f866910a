"""What a job would gain if something were otherwise, by replaying its recorded graph."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from pilotlight.errors import UsageError
from pilotlight.insights.finding import OWN_ROLES
from pilotlight.insights.job import Job
from pilotlight.insights.kernel import Category, category, is_memory_bound
from pilotlight.insights.recorded_graph import PARTS, RecordedGraph, Role
from pilotlight.insights.repair import alike, of_role, without_calls
from pilotlight.model.hardware import Gpu
from pilotlight.trace.trace import Float64

# Calls that wait for the device.
WAITS = ("sync", "allocation")
REMOVABLE = (*PARTS, *WAITS, "launch", "exposed-comm", "copies", "straggler")
TINY_LAUNCH_RATIO = 0.1
# Compute beside communication is slower by about this part of what it hides.
OVERLAP_SLOWDOWN_RATIO = 0.2
# Kernels under this length do not fill the device: a larger batch costs them nothing.
SHORT_KERNEL_NS = 10_000


@dataclass(frozen=True)
class Scale:
    """Kernels whose name matches, as many times as long."""

    pattern: re.Pattern[str]
    factor: float


@dataclass(frozen=True)
class Whatif:
    """`replayed_ns` is the recorded job in replay; the gain is relative to it, for the same number
    of samples."""

    measured_ns: float
    replayed_ns: float
    changed_ns: float
    samples_ratio: float = 1.0

    @property
    def gain_ratio(self) -> float:
        return 1 - self.changed_ns / self.samples_ratio / self.replayed_ns

    @property
    def gain_text(self) -> str:
        # Without a sign at nothing.
        return f"{round(100 * self.gain_ratio, 1) + 0.0:.1f} %"

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


def parse_factor(option: str, text: str) -> float:
    """`2x` or `2`, above 0"""
    try:
        value = float(text.removesuffix("x"))
    except ValueError:
        value = 0.0
    if not 0 < value <= 1000:
        raise UsageError(f"{option} {text!r}: a factor above 0 is needed, as in 2x")
    return value


def without(graph: RecordedGraph, duration_ns: Float64, what: str) -> Float64:
    """The durations with a cause removed; that calls wait no more is the graph's matter."""
    if what in WAITS:
        return without_calls(graph, duration_ns, what)
    if what in graph.parts_ns:
        return np.maximum(duration_ns - graph.parts_ns[what], 0)
    if what == "launch":
        host = (graph.role == Role.HOST) | (graph.role == Role.CALL)
        return np.where(host, duration_ns * TINY_LAUNCH_RATIO, duration_ns)
    if what == "exposed-comm":
        rest = np.maximum(duration_ns - graph.parts_ns["comm-wait"], 0)
        return np.where(graph.role == Role.COLLECTIVE, 0.0, rest)
    if what == "copies":
        return np.where(of_role(graph, "copy"), 0.0, duration_ns)
    if what == "straggler":
        return _all_alike(graph, duration_ns)
    raise UsageError(f"--remove {what}: one of {', '.join(REMOVABLE)}")


def scaled(graph: RecordedGraph, duration_ns: Float64, scales: Sequence[Scale]) -> Float64:
    factors = np.ones(len(graph.names))
    kernels = np.isin(graph.role, (Role.KERNEL, Role.COPY, Role.COLLECTIVE))
    of_kernels = np.unique(graph.name[kernels]).tolist()
    for scale in scales:
        matches = [name for name in of_kernels if scale.pattern.search(graph.names[name])]
        if not matches:
            raise UsageError(f"--kernel: no kernel matches {scale.pattern.pattern!r}")
        factors[matches] *= scale.factor
    return np.where(kernels, duration_ns * factors[graph.name], duration_ns)


def on_gpu(graph: RecordedGraph, duration_ns: Float64, old: Gpu, new: Gpu) -> Float64:
    """Kernels bound by arithmetic scale with the bf16 or fp16 peak, all others with the memory."""
    compute, memory = (
        _ratio(old, new, column) for column in (_peak_column(old, new), "memory_gb_per_s")
    )
    factors = np.array([_factor(category(name), compute, memory) for name in graph.names])
    return np.where(graph.role == Role.KERNEL, duration_ns * factors[graph.name], duration_ns)


def at_bandwidth(graph: RecordedGraph, duration_ns: Float64, factor: float) -> Float64:
    """Links that carry so many times as much."""
    return np.where(graph.role == Role.COLLECTIVE, duration_ns / factor, duration_ns)


def at_batch(graph: RecordedGraph, duration_ns: Float64, factor: float) -> Float64:
    """So many times the samples a step: kernels that fill the device, copies and the loader take
    as much longer; the optimizer, gradients and the host's launches do not."""
    optimizer = np.array([category(name) is Category.OPTIMIZER for name in graph.names], np.bool_)
    long = (duration_ns >= SHORT_KERNEL_NS) & ~optimizer[graph.name]
    grows = ((graph.role == Role.KERNEL) & long) | (graph.role == Role.COPY)
    return np.where(grows, factor, 1.0) * duration_ns + (factor - 1) * graph.parts_ns["loader"]


def overlapped_ns(graph: RecordedGraph, duration_ns: Float64) -> float:
    """The whole, if compute hid all communication that it can: it becomes slower by a part of what
    it hides, and what is longer than all compute remains."""
    with_it = graph.total_ns(duration_ns)
    without_it = graph.total_ns(without(graph, duration_ns, "exposed-comm"))
    hidden_ns = with_it - without_it
    communication = float(duration_ns[graph.role == Role.COLLECTIVE].sum())
    if (graph.rank[graph.role == Role.COLLECTIVE] >= 0).any():
        communication /= max(1, len(np.unique(graph.rank[graph.rank >= 0])))
    return max(without_it + OVERLAP_SLOWDOWN_RATIO * hidden_ns, min(with_it, communication))


def least_ns(job: Job, graph: RecordedGraph, duration_ns: Float64) -> float:
    """What the devices need by themselves: as many kernels at once as were recorded, not more,
    whatever no longer keeps their streams from beginning together."""
    kernels = graph.role == Role.KERNEL
    if not np.array_equal(duration_ns[kernels], graph.duration_ns[kernels]):
        return 0.0
    return float(max(view.line.compute.total_ns() for view in job.ranks))


def communicates(graph: RecordedGraph) -> bool:
    return bool((graph.role == Role.COLLECTIVE).any())


def whatif(graph: RecordedGraph, changed_ns: Float64) -> Whatif:
    replayed = graph.total_ns(graph.duration_ns)
    return Whatif(graph.measured_ns, replayed, graph.total_ns(changed_ns))


def _all_alike(graph: RecordedGraph, duration_ns: Float64) -> Float64:
    ranks = np.unique(graph.rank[graph.rank >= 0]).tolist()
    if len(ranks) < 2:
        raise UsageError("--remove straggler: needs two ranks or more")
    return alike(graph, duration_ns, OWN_ROLES, ranks, ranks)


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
