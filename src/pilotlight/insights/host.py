"""Rules about the host: launches, synchronisation, garbage collection, allocation."""

from __future__ import annotations

import re
from statistics import median

import numpy as np

from pilotlight.insights.blocking import awaits_copy, stages_copy, sync_calls
from pilotlight.insights.finding import (
    Finding,
    Remedy,
    SpanReference,
    Verdict,
    milliseconds,
    percent,
)
from pilotlight.insights.idle_time import Idle
from pilotlight.insights.job import Job
from pilotlight.insights.rank import RankView
from pilotlight.trace.interval import union, window
from pilotlight.trace.trace import NONE, Bool, Int64, Kind, Spans

SHORT_KERNEL_NS = 10_000
LAUNCH_IDLE_RATIO = 0.15
LAUNCH_CALL_RATIO = 0.10
FEW_USUAL = 10
QUEUE_EMPTY_NS = 5_000
SYNC_RATIO = 0.015
# What graphs leave of the host's time for launches.
TINY_RATIO = 0.1
SYNC_PER_LAUNCH = 0.5
FEW_LAUNCHES = 20
STEPS_FOR_MEDIAN = 5
ALLOCATION_RATIO = 0.01
GC_RATIO = 0.01

_ALLOCATION = re.compile(r"^(?:cuda|hip)(?:Malloc|Free|HostAlloc|FreeHost)(?!Async)")
_LAUNCH = re.compile(r"Launch|MemcpyAsync|MemsetAsync")


def launch_bound(job: Job) -> Verdict:
    """A01: many short kernels, each launched only after the one before has ended."""
    if not any((view.launch != NONE).any() for view in job.ranks):
        return Verdict(missing="no launch calls that belong to the kernels")
    findings = []
    for view in job.ranks:
        kernels = view.device.kind == Kind.KERNEL
        if not kernels.any():
            continue
        median_ns = float(np.median(view.device.duration_ns[kernels]))
        issue_ns = _median_issue_ns(view, kernels)
        host = view.idle_ratio(Idle.HOST.value)
        idle = view.all_idle_ratio
        calls = _launch_call_ratio(view)
        if (
            median_ns >= SHORT_KERNEL_NS
            or idle <= LAUNCH_IDLE_RATIO
            or issue_ns >= QUEUE_EMPTY_NS
            or calls <= LAUNCH_CALL_RATIO
        ):
            continue
        findings.append(
            Finding(
                rule="A01",
                cause="launch",
                title="Many short kernels: the device waits for launches",
                rank=view.rank,
                place="host",
                evidence=(
                    f"half of the kernels take less than {median_ns / 1000:.1f} µs",
                    f"half of them begin within {issue_ns / 1000:.1f} µs of their launch call",
                    f"launch calls {percent(calls)} of the step, idle before launches"
                    f" {percent(host)}",
                ),
                fix="CUDA graphs, torch.compile(mode='reduce-overhead'), larger micro-batches",
                gain_low_ratio=0.8 * host,
                gain_high_ratio=host,
                confidence="high",
                remedies=(Remedy(roles=(("host", TINY_RATIO), ("call", TINY_RATIO))),),
            )
        )
    return Verdict(findings)


def sync_points(job: Job) -> Verdict:
    """A03: the host waits for the device to drain and can then not run ahead."""
    if not any(len(view.calls) for view in job.ranks):
        return Verdict(missing="no runtime calls in the trace")
    findings = []
    for view in job.ranks:
        ratio = _sync_ratio(view)
        calls = sync_calls(view.trace, view.device, view.launch, view.calls)
        launches = int((view.launch != NONE).sum())
        debug = launches >= FEW_LAUNCHES and len(calls) / launches >= SYNC_PER_LAUNCH
        if ratio < SYNC_RATIO:
            continue
        where = _callers(view, calls)
        steps = max(1, len(view.steps))
        evidence = [
            f"idle after synchronisation: {percent(ratio)} of the step",
            f"{len(calls) / steps:.0f} blocking calls a step",
            *where,
        ]
        fix = "log every k steps, copy without blocking to pinned memory, torch.where"
        if debug:
            evidence.append(f"{len(calls)} blocking calls for {launches} launches")
            fix = "unset CUDA_LAUNCH_BLOCKING and anomaly detection"
        longest = np.argsort(-calls.duration_ns)[:3]
        findings.append(
            Finding(
                rule="A03",
                cause="sync",
                title="The host stops at synchronisation points",
                rank=view.rank,
                place=where[0] if where else "host",
                evidence=tuple(evidence),
                fix=fix,
                gain_low_ratio=0.8 * ratio,
                gain_high_ratio=ratio,
                confidence="high" if debug else "medium",
                spans=_references(view, calls, longest),
                remedies=(Remedy(waits="sync"),),
            )
        )
    return Verdict(findings)


def _sync_ratio(view: RankView) -> float:
    """The part of the steady time in which the device idles after synchronisation. Where the
    profiler lost events, a lost kernel makes such a gap long: then that of the median step."""
    ratio = view.idle_ratio(Idle.SYNC.value)
    if len(view.steady) < STEPS_FOR_MEDIAN or not _lost_events(view):
        return ratio
    steps = [row.idle_by_cause_ns[Idle.SYNC.value] / max(1, row.window_ns) for row in view.steady]
    return min(ratio, median(steps))


def _lost_events(view: RankView) -> int:
    """Launch calls without what they launched, and the other way round."""
    launching = np.array([_LAUNCH.search(name) is not None for name in view.trace.names], np.bool_)
    calls = view.calls
    answered = np.zeros(len(calls), np.bool_)
    answered[view.launch[view.launch != NONE]] = True
    # The last ones may run after the end of the trace.
    early = calls.start_ns < view.device.start_ns.max()
    return int((launching[calls.name] & ~answered & early).sum() + (view.launch == NONE).sum())


def garbage_collection(job: Job) -> Verdict:
    """A04: collections of Python's garbage stop the host, on every rank at another time."""
    pauses = {view.rank: view.trace.of_kind(Kind.GC) for view in job.ranks}
    if not any(len(spans) for spans in pauses.values()):
        return Verdict(missing="no garbage-collection events (record_python_gc_info)")
    view, ratio = job.worst_idle(Idle.GC.value)
    spans = pauses[view.rank]
    if ratio < GC_RATIO or not len(spans):
        return Verdict()
    longest = np.argsort(-spans.duration_ns)[:3]
    finding = Finding(
        rule="A04",
        cause="gc",
        title="Garbage collection stops the host",
        rank=view.rank,
        place="Python",
        evidence=(
            f"a device idles during collections: {percent(ratio)} of the step",
            f"{len(spans)} collections, the longest {milliseconds(int(spans.duration_ns.max()))}",
        ),
        fix="gc.freeze() after the start, gc.disable() and collect every 1000 steps on all ranks",
        gain_low_ratio=ratio * 0.9,
        gain_high_ratio=ratio,
        confidence="high",
        spans=_references(view, spans, longest),
        remedies=(Remedy(parts=("gc",)),),
    )
    return Verdict((finding,))


def allocation(job: Job) -> Verdict:
    """A35: memory is taken from and given back to the driver within the steps."""
    if not any(len(view.calls) for view in job.ranks):
        return Verdict(missing="no runtime calls in the trace")
    findings = []
    for view in job.ranks:
        if not view.steps:
            continue
        start_ns, end_ns = view.steady_window()
        calls = _calls(view, _ALLOCATION)
        calls = calls.take((calls.start_ns >= start_ns) & (calls.start_ns < end_ns))
        idle = window(start_ns, end_ns) - view.line.busy
        ratio = (idle & union(calls.start_ns, calls.end_ns)).total_ns() / view.steady_ns
        if ratio < ALLOCATION_RATIO:
            continue
        longest = np.argsort(-calls.duration_ns)[:3]
        findings.append(
            Finding(
                rule="A35",
                cause="allocation",
                title="Memory is taken from the driver, or given back, within the steps",
                rank=view.rank,
                place=view.trace.names[calls.name[longest[0]]],
                evidence=(
                    f"{len(calls)} calls; the device idles in them {percent(ratio)} of the step",
                ),
                fix="expandable_segments:True, no torch.cuda.empty_cache(), fixed shapes",
                gain_low_ratio=0.8 * ratio,
                gain_high_ratio=ratio,
                confidence="medium",
                spans=_references(view, calls, longest),
                remedies=(Remedy(waits="allocation"),),
            )
        )
    return Verdict(findings)


def _median_issue_ns(view: RankView, kernels: Bool) -> float:
    known = kernels & (view.launch != NONE)
    if not known.any():
        return float("inf")
    rows = view.launch[known]
    ends = view.calls.start_ns[rows] + view.calls.duration_ns[rows]
    return float(np.median(np.maximum(view.device.start_ns[known] - ends, 0)))


def _launch_call_ratio(view: RankView) -> float:
    """The part of the steady time in calls that launch and do not wait for what they launch. The
    first launch of a kernel may load its code, which takes milliseconds and no graph saves: each
    counts as a few usual ones at most."""
    told = (view.trace, view.device, view.launch, view.calls)
    calls = view.calls.take(~awaits_copy(*told) & ~stages_copy(*told))
    names = view.trace.names
    wanted = np.fromiter((bool(_LAUNCH.search(n)) for n in names), np.bool_, len(names))
    calls = calls.take(wanted[calls.name])
    start_ns, end_ns = view.steady_window()
    inside = (calls.start_ns >= start_ns) & (calls.start_ns < end_ns)
    took_ns = calls.duration_ns[inside]
    most_ns = FEW_USUAL * float(np.median(took_ns)) if len(took_ns) else 0.0
    return float(np.minimum(took_ns, most_ns).sum()) / max(1, end_ns - start_ns)


def _calls(view: RankView, pattern: re.Pattern[str]) -> Spans:
    names = view.trace.names
    wanted = np.fromiter((bool(pattern.search(n)) for n in names), np.bool_, len(names))
    spans = view.trace.spans
    return spans.take(wanted[spans.name] & (spans.kind == Kind.RUNTIME))


def _callers(view: RankView, calls: Spans) -> list[str]:
    """The innermost operators around the longest blocking calls."""
    operators = view.trace.of_kind(Kind.OPERATOR, Kind.ANNOTATION)
    found: list[str] = []
    for i in np.argsort(-calls.duration_ns)[:20]:
        around = (
            (operators.lane == calls.lane[i])
            & (operators.start_ns <= calls.start_ns[i])
            & (operators.end_ns >= calls.start_ns[i] + calls.duration_ns[i])
        )
        rows = np.flatnonzero(around)
        call = view.trace.names[calls.name[i]]
        if len(rows):
            inner = rows[np.argmin(operators.duration_ns[rows])]
            call = f"{call} in {view.trace.names[operators.name[inner]]}"
        if call not in found:
            found.append(call)
    return found[:3]


def _references(view: RankView, spans: Spans, rows: Int64) -> tuple[SpanReference, ...]:
    return tuple(
        SpanReference(
            view.rank,
            view.trace.names[spans.name[i]],
            int(spans.start_ns[i]),
            int(spans.duration_ns[i]),
        )
        for i in rows
    )
