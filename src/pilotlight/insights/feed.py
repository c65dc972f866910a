"""Rules about what comes into the device: the loader and the copies."""

from __future__ import annotations

import re

import numpy as np

from pilotlight.insights.finding import (
    Finding,
    Remedy,
    SpanReference,
    Verdict,
    milliseconds,
    percent,
)
from pilotlight.insights.idle_time import Idle, loader_waits
from pilotlight.insights.job import Job
from pilotlight.insights.rank import RankView
from pilotlight.insights.verdicts import on_others
from pilotlight.model.hardware import find_gpu
from pilotlight.trace.interval import Intervals, union
from pilotlight.trace.trace import Int64, Kind, UInt32

LOADER_RATIO = 0.015
LOADER_HIGH_RATIO = 0.15
COPY_RATIO = 0.015

# Work that is moved off the critical path still shares cores, memory and links with what stays on
# it, and slows that down by up to this part.
CONTENTION_RATIO = 0.3

# What pinned memory reaches over PCIe where the GPU is not known: generation 4.
PINNED_GB_PER_S = 25.0

# Right for every framework.
WITHIN_DEVICE_FIX = (
    "write results where they are read: fewer clone(), contiguous() and copy_(); in DDP"
    " gradient_as_bucket_view=True; in JAX donate_argnums"
)
_WITHIN_DEVICE = re.compile(r"DtoD|D2D|DeviceToDevice")


def loader_bound(job: Job) -> Verdict:
    """A08: the device idles while the host waits for the next batch."""
    waits = {view.rank: loader_waits(view.trace) for view in job.ranks}
    if not any(len(intervals) for intervals in waits.values()):
        return Verdict(missing="no span of a data loader")
    view, ratio = job.worst_idle(Idle.LOADER.value)
    if ratio <= LOADER_RATIO:
        return Verdict()
    mine = view.idle_ratio(Idle.LOADER.value)
    others = [v.idle_ratio(Idle.LOADER.value) for v in job.ranks if v is not view]
    per_step = [row.idle_by_cause_ns[Idle.LOADER.value] for row in view.steady]
    finding = Finding(
        rule="A08",
        cause="loader",
        title="The device waits for the data loader",
        rank=view.rank,
        place="data loader",
        evidence=(
            f"the device idles while the loader works: {percent(ratio)} of the step",
            _span_of(per_step, view.step_ns),
            *on_others(sum(ratio >= mine / 2 for ratio in others)),
        ),
        fix="more loader workers, prefetch_factor, persistent_workers, pin_memory",
        gain_low_ratio=ratio * (1 - CONTENTION_RATIO),
        gain_high_ratio=ratio,
        confidence="high" if ratio > LOADER_HIGH_RATIO else "medium",
        spans=_longest(view.rank, "data loader", waits[view.rank]),
        remedies=(Remedy(parts=("loader",)),),
    )
    return Verdict((finding,))


def _span_of(per_step_ns: list[int], step_ns: float) -> str:
    least, most = (milliseconds(ns) for ns in (min(per_step_ns), max(per_step_ns)))
    if least == most:
        return f"{most} of {milliseconds(step_ns)}"
    return f"{least} to {most} in steps of {milliseconds(step_ns)}"


def exposed_copies(job: Job) -> Verdict:
    """A11: copies that nothing hides, from pageable memory or not."""
    findings = []
    for view in job.ranks:
        copies = view.device.take(view.device.kind == Kind.MEMCPY)
        if not len(copies):
            continue
        exposed = view.line.copies - view.line.compute - view.line.communication
        start_ns, end_ns = view.steady_window()
        total_ns = end_ns - start_ns
        bounds = np.array([start_ns]), np.array([end_ns])
        ratio = float(exposed.within_ns(*bounds)[0]) / total_ns
        if ratio <= COPY_RATIO:
            continue
        names = [view.trace.names[name] for name in copies.name]
        pageable = np.array(["Pageable" in name for name in names])
        inside = np.array([_WITHIN_DEVICE.search(name) is not None for name in names])
        pageable_ratio, inside_ratio = (
            float((union(copies.start_ns[of], copies.end_ns[of]) & exposed).within_ns(*bounds)[0])
            / total_ns
            for of in (pageable, inside)
        )
        findings.append(_copy_finding(view, ratio, pageable_ratio, inside_ratio, exposed))
    return Verdict(findings)


def _copy_finding(
    view: RankView, ratio: float, pageable_ratio: float, inside_ratio: float, exposed: Intervals
) -> Finding:
    copies = view.device.take(view.device.kind == Kind.MEMCPY)
    by_name = _by_direction(view, copies.name, copies.duration_ns, copies.bytes)
    # Hidden behind the rest at best: the longer of the two remains.
    hidden_ratio = min(ratio, 1 - ratio)
    if pageable_ratio > ratio / 2:
        low = pageable_ratio * max(0.0, 1 - _pageable_rate(view) / _pinned_rate(view))
        title = "Copies from pageable memory hold up the device"
        fix = "pin_memory=True and non_blocking=True, copy on a stream of its own"
    elif inside_ratio > ratio / 2:
        low = hidden_ratio * (1 - CONTENTION_RATIO)
        title = "Copies within the device's memory take much of the step"
        fix = WITHIN_DEVICE_FIX
    else:
        low = hidden_ratio * (1 - CONTENTION_RATIO)
        title = "Copies that nothing overlaps take much of the step"
        fix = "keep the data on the device, or prefetch it on a stream of its own"
    return Finding(
        rule="A11",
        cause="copies",
        title=title,
        rank=view.rank,
        place=by_name[0].split(":")[0],
        evidence=(f"exposed copies: {percent(ratio)} of the step", *by_name[:3]),
        fix=fix,
        gain_low_ratio=min(low, ratio),
        gain_high_ratio=ratio,
        confidence="high",
        spans=_longest(view.rank, "copy", exposed),
        remedies=(Remedy(roles=(("copy", 0.0),)),),
    )


def _pageable_rate(view: RankView) -> float:
    """GB/s of the copies from and to pageable memory."""
    names = view.trace.names
    pageable = np.fromiter(("Pageable" in name for name in names), np.bool_, len(names))
    chosen = pageable[view.device.name] & (view.device.kind == Kind.MEMCPY)
    size, duration_ns = view.device.bytes[chosen].clip(min=0), view.device.duration_ns[chosen]
    return float(size.sum()) / max(1.0, float(duration_ns.sum()))


def _pinned_rate(view: RankView) -> float:
    gpu = find_gpu(view.trace.devices[0]) if view.trace.devices else None
    return gpu.pinned_gb_per_s if gpu else PINNED_GB_PER_S


def _by_direction(view: RankView, name: UInt32, duration_ns: Int64, size: Int64) -> list[str]:
    rows = []
    for number in np.unique(name):
        mine = name == number
        total_ns = int(duration_ns[mine].sum())
        total_bytes = int(size[mine].clip(min=0).sum())
        rate = f", {_rate(total_bytes / total_ns)}" if total_bytes and total_ns else ""
        text = f"{view.trace.names[number]}: {int(mine.sum())} in {milliseconds(total_ns)}{rate}"
        rows.append((total_ns, text))
    return [text for _, text in sorted(rows, reverse=True)]


def _rate(gb_per_s: float) -> str:
    if gb_per_s < 0.1:
        return f"{1e3 * gb_per_s:.3g} MB/s"
    return f"{gb_per_s:,.0f} GB/s" if gb_per_s >= 99.95 else f"{gb_per_s:.1f} GB/s"


def _longest(rank: int, name: str, intervals: Intervals) -> tuple[SpanReference, ...]:
    lengths = intervals.lengths_ns()
    return tuple(
        SpanReference(rank, name, int(intervals.start_ns[i]), int(lengths[i]))
        for i in np.argsort(-lengths)[:3]
    )
