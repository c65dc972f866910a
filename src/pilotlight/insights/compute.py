"""Rules about kernels: number formats, attention, and kernels slower than on other ranks."""

from __future__ import annotations

import re

import numpy as np

from pilotlight.insights.breakdown import KernelTime, kernel_times
from pilotlight.insights.finding import NO_GPU, Finding, Remedy, SpanReference, Verdict, percent
from pilotlight.insights.job import Job
from pilotlight.insights.kernel import Category, is_fp32_without_tensor_cores
from pilotlight.insights.rank import RankView
from pilotlight.insights.stage import same_work
from pilotlight.model.hardware import Gpu, find_gpu
from pilotlight.trace.trace import Kind

FP32_RATIO = 0.10
EFFICIENCY = 0.85
ATTENTION_RATIO = 0.03
SLOW_KERNEL_RATIO = 1.10
SLOW_KERNELS = 3
SLOW_DEVICE_RATIO = 0.015
SLOW_OF_TWO_RATIO = 0.03
ALWAYS_RATIO = 0.85
SLOW_DEVICE_SPREADS = 5.0
MIN_LAUNCHES = 5

_BATCHED = re.compile(r"^aten::(?:bmm|baddbmm|matmul)$")
_SOFTMAX = re.compile(r"^aten::_?softmax$")


def fp32_without_tensor_cores(job: Job) -> Verdict:
    """A14: matrix products and convolutions in fp32 where tensor cores could do them."""
    known = [(view, gpu) for view in job.ranks if (gpu := _gpu(view)) is not None]
    if not known:
        return Verdict(missing=NO_GPU)
    findings = []
    for view, gpu in known:
        rows = [
            row
            for row in kernel_times(view.trace)
            if row.category in (Category.GEMM.value, Category.CONVOLUTION.value)
            and is_fp32_without_tensor_cores(row.name)
        ]
        ratio = _share(view, rows)
        fast, slow = _tensor_peak(gpu), gpu.peak("fp32")
        if ratio <= FP32_RATIO or fast is None or slow is None:
            continue
        high = ratio * max(0.0, 1 - slow / (EFFICIENCY * fast))
        findings.append(
            Finding(
                rule="A14",
                cause="fp32",
                title="Matrix products in fp32 leave the tensor cores idle",
                rank=view.rank,
                place=rows[0].name[:60],
                evidence=(
                    f"fp32 products and convolutions: {percent(ratio)} of the step",
                    f"{gpu.name}: {slow:g} TFLOP/s in fp32, {fast:g} on tensor cores",
                ),
                fix=_tensor_core_fix(gpu),
                gain_low_ratio=high / 3,
                gain_high_ratio=high,
                confidence="medium",
                spans=_longest(view, rows[0]),
                remedies=(Remedy(kernels=tuple((row.name, 1 - high / ratio) for row in rows)),),
            )
        )
    return Verdict(findings)


def unfused_attention(job: Job) -> Verdict:
    """A18: softmax between two batched products instead of one fused kernel."""
    if not any(len(view.trace.of_kind(Kind.OPERATOR)) for view in job.ranks):
        return Verdict(missing="no operators in the trace")
    findings = []
    for view in job.ranks:
        rows = kernel_times(view.trace)
        fused = any(row.category == Category.ATTENTION.value for row in rows)
        names = view.trace.names
        used = {names[i] for i in np.unique(view.trace.of_kind(Kind.OPERATOR).name)}
        batched = any(_BATCHED.match(name) for name in used)
        softmax = [row for row in rows if row.category == Category.SOFTMAX.value]
        ratio = _share(view, softmax)
        products = _share(view, [row for row in rows if row.category == Category.GEMM.value])
        if fused or not batched or not any(map(_SOFTMAX.match, used)) or ratio < ATTENTION_RATIO:
            continue
        findings.append(
            Finding(
                rule="A18",
                cause="attention",
                title="Attention is not fused",
                rank=view.rank,
                place="attention",
                evidence=(
                    f"softmax kernels: {percent(ratio)} of the step, between batched products",
                    "no fused attention kernel in the trace",
                ),
                fix="torch.nn.functional.scaled_dot_product_attention or FlashAttention",
                gain_low_ratio=ratio / 2,
                gain_high_ratio=ratio + min(ratio, products),
                confidence="low",
                spans=_longest(view, softmax[0]),
            )
        )
    return Verdict(findings)


def slow_device(job: Job) -> Verdict:
    """A23: the same kernels take longer on one rank than on the others."""
    if len(job.ranks) < 2:
        return Verdict(missing="needs the traces of two ranks or more")
    medians = {view.rank: _medians(view) for view in job.ranks}
    shared = set.intersection(*(set(rows) for rows in medians.values()))
    if len(shared) < SLOW_KERNELS:
        return Verdict(missing=f"needs {SLOW_KERNELS} kernels that all ranks run")
    # Two ranks cannot tell by how much devices differ anyway.
    least = SLOW_DEVICE_RATIO if len(job.ranks) > 2 else SLOW_OF_TWO_RATIO
    findings = []
    for view in job.ranks:
        others = [rows for rank, rows in medians.items() if rank != view.rank]
        usual = {name: float(np.median([rows[name][0] for rows in others])) for name in shared}
        paces = np.array([_pace(rows, usual) for rows in others])
        centre = float(np.median(paces))
        spread = 1.4826 * float(np.median(np.abs(paces - centre)))
        excess = _pace(medians[view.rank], usual) / centre - 1
        if excess < least or excess < SLOW_DEVICE_SPREADS * spread:
            continue
        if not _is_always_slower(job, view.rank):
            continue
        rows = medians[view.rank]
        slow = [n for n in shared if rows[n][0] > usual[n] * (1 + excess / 2)]
        if len(slow) < SLOW_KERNELS:
            continue
        lost_ns = sum(rows[n][1] * (1 - usual[n] / rows[n][0]) for n in shared)
        gain = lost_ns / view.traced_ns
        worst = max(slow, key=lambda name: rows[name][1])
        findings.append(
            Finding(
                rule="A23",
                cause="slow_gpu",
                title="The device of this rank is slower than the others",
                rank=view.rank,
                place=worst[:60],
                evidence=(
                    f"the same kernels take {1 + excess:.3f} times as long as on the other ranks,"
                    f" which differ by {percent(spread)}",
                    f"{len(slow)} of {len(shared)} kernels are slower",
                ),
                fix="look at clocks, temperature, power cap, ECC and XID errors; drain the node",
                gain_low_ratio=gain * 0.8,
                gain_high_ratio=gain,
                confidence="high" if excess > SLOW_KERNEL_RATIO - 1 else "medium",
                remedies=(
                    Remedy(
                        kernels=tuple((n, min(1.0, usual[n] / rows[n][0])) for n in sorted(shared)),
                        ranks=(view.rank,),
                    ),
                ),
            )
        )
    return Verdict(findings)


def _is_always_slower(job: Job, rank: int) -> bool:
    """Whether it computes longer than those with the same work in nearly all steps: samples make
    ranks slow by turns, devices do not. True where nobody has the same work."""
    column = [view.rank for view in job.ranks].index(rank)
    peers = same_work(job, column)
    if not peers:
        return True
    compute = job.step_compute_ns
    slower = compute[column] > np.median(compute[peers], axis=0)
    return bool(slower.mean() >= ALWAYS_RATIO)


def device_pace(job: Job, rank: int) -> float | None:
    """How many times as long the same kernels take on this rank as on the others; None if there is
    nothing to compare."""
    if len(job.ranks) < 3:
        return None
    medians = {view.rank: _medians(view) for view in job.ranks}
    shared = set.intersection(*(set(rows) for rows in medians.values()))
    if len(shared) < SLOW_KERNELS:
        return None
    usual = {name: float(np.median([m[name][0] for m in medians.values()])) for name in shared}
    others = [_pace(rows, usual) for other, rows in medians.items() if other != rank]
    return _pace(medians[rank], usual) / float(np.median(others))


def _pace(rows: dict[str, tuple[float, float]], usual: dict[str, float]) -> float:
    """How long kernels take relative to the usual, weighted by their time."""
    names = [name for name in usual if usual[name] > 0]
    ratios = [rows[name][0] / usual[name] for name in names]
    return float(np.average(ratios, weights=[rows[name][1] for name in names]))


def _gpu(view: RankView) -> Gpu | None:
    return find_gpu(view.trace.devices[0]) if view.trace.devices else None


def _tensor_peak(gpu: Gpu) -> float | None:
    """The format that needs the least change: tf32 where the GPU has it."""
    return gpu.peak("tf32") or gpu.peak("fp16")


def _tensor_core_fix(gpu: Gpu) -> str:
    if gpu.peak("tf32"):
        return "torch.set_float32_matmul_precision('high') or bf16 autocast; check the loss"
    return "fp16 autocast with a GradScaler; check the loss"


def _share(view: RankView, rows: list[KernelTime]) -> float:
    return sum(row.total_ns for row in rows) / view.traced_ns


def _medians(view: RankView) -> dict[str, tuple[float, float]]:
    return {
        row.name: (row.median_ns, row.total_ns)
        for row in kernel_times(view.trace)
        if row.category != Category.COMMUNICATION.value and row.count >= MIN_LAUNCHES
    }


def _longest(view: RankView, row: KernelTime) -> tuple[SpanReference, ...]:
    number = view.trace.names.index(row.name)
    spans = view.device.take(view.device.name == number)
    return tuple(
        SpanReference(view.rank, row.name, int(spans.start_ns[i]), int(spans.duration_ns[i]))
        for i in np.argsort(-spans.duration_ns)[:3]
    )
