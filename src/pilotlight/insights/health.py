"""Rules about the device as a whole: its clock, its use, its memory, its idle hours."""

from __future__ import annotations

import numpy as np

from pilotlight.insights import signals
from pilotlight.insights.compute import device_pace
from pilotlight.insights.finding import Finding, Verdict, percent
from pilotlight.insights.job import Job
from pilotlight.insights.kernel import Category, category
from pilotlight.insights.rank import RankView
from pilotlight.insights.roofline import roofline
from pilotlight.insights.stage import like_its_peers
from pilotlight.model.hardware import find_gpu
from pilotlight.trace.kineto import ALLOCATED
from pilotlight.trace.trace import NONE, Kind

HELD_PERCENT = 5.0
CLOCK_RATIO = 0.9
BUSY_PERCENT = 90.0
LOW_MFU = 0.30
GOOD_MFU = 0.45
FULL_RATIO = 0.90
ROOM_RATIO = 0.45
BATCH_GAIN_RATIO = 0.03
LEAK_RATIO = 0.05
START_NS = 20 * 60 * 1_000_000_000

# Held down by temperature, power brake or reliability is a fault; by the power limit, a policy.
_HELD = ("held_by_temperature", "held_by_board", "held_by_reliability")


def throttled_clock(job: Job) -> Verdict:
    """A22: a device runs at a lower clock than its peers, or is held down."""
    clocks = [signals.mean(view, "sm_clock") for view in job.ranks]
    held = [max((signals.mean(v, name) or 0.0) for name in _HELD) for v in job.ranks]
    if all(clock is None for clock in clocks) and not any(held):
        return Verdict(missing="no clocks or throttle reasons of the devices")
    known = [clock for clock in clocks if clock]
    usual = float(np.median(known)) if known else 0.0
    findings = []
    for i, view in enumerate(job.ranks):
        clock = clocks[i]
        low = bool(clock and usual and clock < CLOCK_RATIO * usual)
        often = held[i] > HELD_PERCENT and held[i] > 2 * float(np.median(held))
        alone_and_held = len(job.ranks) < 3 and held[i] > HELD_PERCENT
        if not (low or often or alone_and_held):
            continue
        slower = 1 - clock / usual if clock and usual else 0.0
        pace = device_pace(job, view.rank)
        compute = view.whole.compute_ns / view.whole.window_ns
        gain = slower * compute if pace is None else (1 - 1 / pace) * compute
        evidence = [f"held down by heat or power {held[i]:.0f} % of the time"] if held[i] else []
        if clock and usual:
            evidence.append(f"clock {clock:,.0f} MHz, the others {usual:,.0f} MHz")
        findings.append(
            Finding(
                rule="A22",
                cause="throttle",
                title="The device runs at a reduced clock",
                rank=view.rank,
                place=f"device of rank {view.rank}",
                evidence=tuple(evidence),
                fix="look at cooling, power limit and the node's power supply; swap the node",
                gain_low_ratio=0.8 * max(gain, 0.0),
                gain_high_ratio=max(gain, 0.0),
                confidence="high",
                remedies=like_its_peers(job, i, ("kernel",)),
            )
        )
    return Verdict(findings)


def busy_without_result(job: Job) -> Verdict:
    """A21: the device is always busy and computes little; where to look first."""
    if not job.ranks:
        return Verdict(missing="no device activity")
    view = job.ranks[0]
    gpu = find_gpu(view.trace.devices[0]) if view.trace.devices else None
    operators = view.trace.detail.operators
    if gpu is None or not operators.kinds:
        return Verdict(missing="needs shapes of operators and a GPU of the hardware table")
    busy = signals.mean(view, "utilization")
    if busy is None:
        busy = 100 * (1 - view.whole.idle_ns / view.whole.window_ns)
    table = roofline(view, operators, gpu)
    if busy <= BUSY_PERCENT or table.mfu_ratio >= LOW_MFU:
        return Verdict()
    if not table.is_mfu_known or table.is_mfu_a_bound:
        return Verdict()
    whole = view.whole
    parts = (
        f"exposed communication {percent(whole.exposed_communication_ns / whole.window_ns)}",
        f"exposed copies {percent(whole.exposed_copy_ns / whole.window_ns)}",
        f"idle {percent(whole.idle_ns / whole.window_ns)}",
    )
    finding = Finding(
        rule="A21",
        cause="low_mfu",
        title="The device is busy but computes little",
        rank=view.rank,
        place=table.gpu,
        evidence=(
            f"busy {busy:.0f} % of the time, {percent(table.mfu_ratio)} of the peak arithmetic",
            ", ".join(parts),
            *(f"{r.operator} {r.shapes}: {percent(r.roofline_ratio)} of its roof, {r.limit}"
              for r in table.rows[:3]),
        ),
        fix="look at the costliest operators: `pilotlight roofline`",
        gain_low_ratio=0.0,
        gain_high_ratio=max(0.0, 1 - table.mfu_ratio / GOOD_MFU) / 2,
        confidence="low",
    )  # fmt: skip
    return Verdict((finding,))


def memory(job: Job) -> Verdict:
    """A36: memory that is nearly full, grows, or leaves room for a larger batch."""
    read = [(view, *_memory(view)) for view in job.ranks]
    known = [(view, ratio, growth) for view, ratio, growth in read if ratio is not None]
    if not known:
        return Verdict(missing="no memory counters, or the GPU's size is not known")
    view, ratio, growth = max(known, key=lambda row: row[1])
    if ratio > FULL_RATIO or growth > LEAK_RATIO:
        text = f"{percent(ratio)} of the device's memory at the peak"
        grown = f"grew by {percent(growth)} from the first to the last steps"
        return Verdict((_memory_risk(view, (text, grown) if growth > LEAK_RATIO else (text,)),))
    fixed = _fixed_ratio(view)
    if ratio >= ROOM_RATIO or fixed is None or fixed / 2 < BATCH_GAIN_RATIO:
        return Verdict()
    finding = Finding(
        rule="A36",
        cause="batch",
        title="A larger batch would fit",
        rank=view.rank,
        place="device memory",
        evidence=(
            f"{percent(ratio)} of the device's memory is used at the peak",
            f"{percent(fixed)} of the step does not grow with the batch",
        ),
        fix="twice the batch; check the learning rate",
        gain_low_ratio=0.3 * fixed / 2,
        gain_high_ratio=fixed / 2,
        confidence="low",
    )
    return Verdict((finding,))


def slow_start(job: Job) -> Verdict:
    """A38: the devices wait long for the first step."""
    traces = [t for t in job.traces if t.format == "recording" and len(t.steps)]
    if not traces:
        return Verdict(missing="needs a recording from the start of the job")
    findings = []
    for trace in traces:
        begin = (
            int(trace.spans.start_ns.min()) if len(trace.spans) else int(trace.steps.start_ns[0])
        )
        waited_ns = int(trace.steps.start_ns[0]) - begin
        end = int(trace.steps.start_ns[-1] + trace.steps.duration_ns[-1])
        if waited_ns < START_NS:
            continue
        ratio = waited_ns / max(1, end - begin)
        findings.append(
            Finding(
                rule="A38",
                cause="start",
                title="The job takes long to its first step",
                rank=trace.rank,
                place="start",
                evidence=(f"{waited_ns / 60e9:.0f} minutes, {percent(ratio)} of the recording",),
                fix="cache compiled code and data, load checkpoints in parallel, warm up less",
                gain_low_ratio=0.5 * ratio,
                gain_high_ratio=ratio,
                confidence="medium",
            )
        )
    return Verdict(findings)


def _memory(view: RankView) -> tuple[float | None, float]:
    """Peak as a part of the device's memory, and growth of the peaks over the steps."""
    total, used = (
        signals.values(view.trace, "memory_total"),
        signals.values(view.trace, "memory_used"),
    )
    if len(total) and len(used):
        return float(used.max() / max(total.max(), 1.0)), _growth(used)
    gpu = find_gpu(view.trace.devices[0]) if view.trace.devices else None
    size = view.trace.memory_bytes or 1e9 * ((gpu.peak("memory_gb") if gpu else None) or 0.0)
    wanted = [name.startswith(ALLOCATED) and not name.endswith("-1") for name in view.trace.names]
    values = view.trace.counters.value[np.array(wanted, np.bool_)[view.trace.counters.name]]
    if not size or not len(values):
        return None, 0.0
    return float(values.max()) / size, 0.0


def _growth(used: np.ndarray[tuple[int], np.dtype[np.float64]]) -> float:
    """Only of many readings: memory fills up in the first steps by design."""
    if len(used) < 60:
        return 0.0
    part = len(used) // 4
    early, late = float(used[part : 2 * part].max()), float(used[-part:].max())
    return late / early - 1 if early else 0.0


def _memory_risk(view: RankView, evidence: tuple[str, ...]) -> Finding:
    return Finding(
        rule="A36",
        cause="memory",
        title="The device's memory is nearly full or grows",
        rank=view.rank,
        place="device memory",
        evidence=evidence,
        fix="activation checkpointing, a smaller batch, expandable_segments; look for kept tensors",
        gain_low_ratio=0.0,
        gain_high_ratio=0.0,
        confidence="medium",
        is_risk=True,
    )


def _fixed_ratio(view: RankView) -> float | None:
    """What a larger batch does not lengthen: idle time before launches, the optimizer, exposed
    gradients. None for jobs without an optimizer."""
    names = [category(name) is Category.OPTIMIZER for name in view.trace.names]
    kernels = view.device.take(view.device.kind == Kind.KERNEL)
    optimizer = kernels.duration_ns[np.array(names, np.bool_)[kernels.name]]
    if not len(optimizer) or not (view.launch != NONE).any():
        return None
    whole = view.whole
    host = whole.idle_by_cause_ns["host launches late"]
    return (int(optimizer.sum()) + host + whole.exposed_communication_ns) / whole.window_ns
