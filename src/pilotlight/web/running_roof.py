"""Where a running job stands under the roof of its GPUs, from windows and hardware counters."""

from __future__ import annotations

from collections.abc import Mapping

from pilotlight.insights.kernel import Category, category, is_memory_bound
from pilotlight.model.hardware import Gpu, find_gpu, gpus
from pilotlight.store import queries
from pilotlight.store.queries import GpuPlace, Hot, Reader, Span
from pilotlight.web import answers
from pilotlight.web.roofs import peaks_of

COMPUTE, MEMORY, LATENCY, COMMUNICATION, UNKNOWN = (
    "compute", "memory", "latency", "communication", "not known",
)  # fmt: skip
BUSY_RATIO = 0.6
"""From here on a unit is what limits: programs seldom bring one above 0.8."""
_TENSOR, _MEMORY, _CLOCK = "gpu.tensor_active_ratio", "gpu.dram_active_ratio", "gpu.sm_clock_mhz"
_NEEDED = (_TENSOR, _MEMORY, _CLOCK)
_GPU = """
SELECT anyIf(gpu_name, gpu_name != '') FROM ranks WHERE tenant = {tenant:String}
  AND job = {job:String}
"""
_COMPUTING = (Category.GEMM, Category.CONVOLUTION, Category.ATTENTION)


def job_roofline(reader: Reader, job: str, span: Span, gpu_name: str) -> answers.JobRoofline:
    (has_it,) = reader.select(_GPU, job=job)
    gpu = find_gpu(gpu_name or has_it[0])
    found = kinds(queries.kernels(reader, job, span, 500))
    points = points_of(gpu, queries.counter_means(reader, _NEEDED, span, job)) if gpu else []
    sums: dict[str, int] = {}
    for kernel in found:
        sums[kernel.limit] = sums.get(kernel.limit, 0) + kernel.total_ns
    return answers.JobRoofline(
        gpu=gpu.name if gpu else "",
        peaks=peaks_of(gpu) if gpu else [],
        points=points,
        kernels=found,
        kinds_ns=sums,
        captures=[row for row in queries.captures(reader, job, 20) if row.state == "stored"],
        missing=_missing(gpu, has_it[0], points),
        is_partial=reader.is_partial,
    )


def points_of(
    gpu: Gpu, counters: Mapping[GpuPlace, Mapping[str, float]]
) -> list[answers.RankPoint]:
    """Operations a second: the share of cycles in which the tensor units worked, at their clock,
    of the datasheet's peak for bf16 (fp16 where there is no bf16)."""
    peak = (gpu.peak("bf16") or gpu.peak("fp16") or 0.0) * 1e12
    bandwidth = (gpu.peak("memory_gb_per_s") or 0.0) * 1e9
    full_mhz = gpu.peak("clock_mhz") or 0.0
    found = []
    for place, values in counters.items():
        tensor_ratio, memory_ratio = values.get(_TENSOR), values.get(_MEMORY)
        if tensor_ratio is None or memory_ratio is None or not peak or not bandwidth:
            continue
        clock_mhz = values.get(_CLOCK, full_mhz)
        busy = tensor_ratio * (min(1.0, clock_mhz / full_mhz) if full_mhz else 1.0)
        found.append(
            answers.RankPoint(
                rank=place.rank,
                node=place.node,
                gpu=place.gpu,
                tensor_ratio=busy,
                memory_ratio=memory_ratio,
                flops=busy * peak,
                bytes=memory_ratio * bandwidth,
                limit=_limit(busy, memory_ratio),
            )
        )
    return sorted(found, key=lambda point: point.rank)


def kinds(kernels: list[Hot]) -> list[answers.KernelKind]:
    """What limits a kernel as a rule, by its name: with little confidence, and said so."""
    found = []
    for kernel in kernels:
        if kernel.kind not in ("kernel", "graph", "memcpy", "memset"):
            continue
        kind = Category.COPY if kernel.kind.startswith("mem") else category(kernel.name)
        if kind in _COMPUTING:
            limit = COMPUTE
        elif kind is Category.COMMUNICATION:
            limit = COMMUNICATION
        elif is_memory_bound(kind) or kind in (Category.COPY, Category.EMBEDDING):
            limit = MEMORY
        else:
            limit = UNKNOWN
        found.append(
            answers.KernelKind(
                kernel.name, kind.value, limit, kernel.count, kernel.total_ns, kernel.ratio
            )
        )
    return found


def _limit(tensor_ratio: float, memory_ratio: float) -> str:
    if max(tensor_ratio, memory_ratio) < BUSY_RATIO:
        return LATENCY
    return COMPUTE if tensor_ratio >= memory_ratio else MEMORY


def _missing(gpu: Gpu | None, name: str, points: list[answers.RankPoint]) -> str:
    if gpu is None:
        known = ", ".join(gpus())
        if name:
            return f"The peak of {name[:60]} is not known here. Compare with one of {known}."
        return f"Which GPU the job runs on is not known. Compare with one of {known}."
    if not points:
        return (
            "The agents read no activity of tensor units and memory: those counters are of Hopper "
            "and later, through NVML."
        )
    return ""
