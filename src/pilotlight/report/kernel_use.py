"""What each kernel asked of the units of its GPU, by the range profiler (docs/gpu.md)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from pilotlight.recording.recording import Recording
from pilotlight.recording.schema import ActivityKind

KERNELS_LISTED = 200
_DURATION = "duration_ns"


@dataclass(frozen=True)
class KernelUse:
    """Means over its runs, weighted with how long they took: percent of what a unit could do, or
    bytes a run. `ratio` of the time of all kernels that were profiled. Kernels ran one after the
    other meanwhile."""

    kernel: str
    runs: int
    mean_ns: float
    ratio: float
    means: dict[str, float]


def kernels_of(recording: Recording, since_ns: int = 0) -> tuple[KernelUse, ...]:
    """Those that took longest first; of windows that began before `since_ns` nothing."""
    rows = recording.detail("activities")
    rows = rows.where((rows["kind"] == ActivityKind.KERNEL_METRIC) & (rows["start_ns"] >= since_ns))
    texts = recording.names.texts
    kernels = recording.names.find(rows["process"], rows["name"]).tolist()
    labels = recording.names.find(rows["process"], rows["range"]).tolist()
    values = np.ascontiguousarray(rows["detail"].astype(np.uint64)).view(np.float64).tolist()
    runs: dict[tuple[int, int], tuple[str, dict[str, float]]] = {}
    columns = (rows["process"].tolist(), rows["correlation"].tolist())
    for process, run, kernel, label, value in zip(*columns, kernels, labels, values, strict=True):
        if np.isfinite(value):
            runs.setdefault((process, run), (texts[kernel], {}))[1][texts[label]] = value
    by_kernel: dict[str, list[dict[str, float]]] = {}
    for kernel, found in runs.values():
        if found.get(_DURATION, 0) > 0:
            by_kernel.setdefault(kernel or "(not known)", []).append(found)
    whole = sum(run[_DURATION] for mine in by_kernel.values() for run in mine) or 1.0
    result = [_use(kernel, mine, whole) for kernel, mine in by_kernel.items()]
    result.sort(key=lambda one: (-one.ratio, one.kernel))
    return tuple(result)


def _use(kernel: str, runs: list[dict[str, float]], whole_ns: float) -> KernelUse:
    own_ns = sum(run[_DURATION] for run in runs)
    means = {}
    for label in sorted({label for run in runs for label in run} - {_DURATION}):
        known = [(run[label], run[_DURATION]) for run in runs if label in run]
        if label.endswith("_bytes"):
            means[label] = sum(value for value, _ in known) / len(known)
        else:
            length_ns = sum(weight for _, weight in known)
            means[label] = sum(value * weight for value, weight in known) / length_ns
    return KernelUse(kernel, len(runs), own_ns / len(runs), own_ns / whole_ns, means)
