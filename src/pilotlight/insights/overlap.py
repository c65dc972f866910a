"""Rules about collectives beside compute: many tiny ones, and kernels that they slow down."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator

import numpy as np

from pilotlight.insights.finding import Finding, Verdict, percent
from pilotlight.insights.job import Job
from pilotlight.insights.kernel import Category, category
from pilotlight.insights.rank import RankView
from pilotlight.insights.shorter import shorter_kernels
from pilotlight.trace.detail_row import detail_rows
from pilotlight.trace.distinct import distinct
from pilotlight.trace.interval import union
from pilotlight.trace.trace import Bool, Kind, Spans

TINY_COUNT = 20
TINY_NS = 100_000
SLOWED_RATIO = 1.15
COVERED_RATIO = 0.8
LEAST_LAUNCHES = 5
STEADY_RATIO = 1.3

_SYNC_NORM = re.compile(r"batch_norm_gather_stats|sync_?batch_?norm", re.IGNORECASE)


def synchronized_norms(job: Job) -> Verdict:
    """A20: norms over all ranks send a tiny message in every layer."""
    findings = []
    for view in job.ranks:
        used = np.array([bool(_SYNC_NORM.search(name)) for name in view.trace.names])
        operators = view.trace.of_kind(Kind.OPERATOR, Kind.ANNOTATION)
        count = int(used[operators.name].sum()) / max(1, len(view.steps))
        if count <= TINY_COUNT:
            continue
        spans = view.device.take(_communicates(view) & (view.device.duration_ns < TINY_NS))
        exposed = union(spans.start_ns, spans.end_ns) - view.line.compute
        ratio = exposed.total_ns() / view.traced_ns
        findings.append(
            Finding(
                rule="A20",
                cause="sync_norm",
                title="Norms synchronise all ranks in every layer",
                rank=view.rank,
                place="SyncBatchNorm",
                evidence=(
                    f"{count:.0f} synchronised norms a step",
                    f"tiny collectives, exposed: {percent(ratio)} of the step",
                ),
                fix="GroupNorm, or synchronise fewer of them",
                gain_low_ratio=0.5 * ratio,
                gain_high_ratio=ratio,
                confidence="medium",
            )
        )
    return Verdict(findings)


def slowed_by_communication(job: Job) -> Verdict:
    """A32: the same kernel takes longer while a collective runs beside it."""
    if not any(len(view.line.communication) for view in job.ranks):
        return Verdict(missing="no communication kernels")
    findings = []
    for view in job.ranks:
        lost_ns, worst = _slowed(view)
        ratio = sum(lost_ns.values()) / view.traced_ns
        if not worst:
            continue
        name, alone, beside = worst
        findings.append(
            Finding(
                rule="A32",
                cause="contended",
                title="Kernels are slower while collectives run beside them",
                rank=view.rank,
                place=name[:60],
                evidence=(
                    f"{name[:60]}: {alone / 1000:.1f} µs alone, {beside / 1000:.1f} µs beside",
                    f"all such kernels lose {percent(ratio)} of the step",
                ),
                fix="fewer channels or blocks for NCCL (NCCL_MAX_CTAS), another order of launches",
                gain_low_ratio=0.0,
                gain_high_ratio=ratio,
                confidence="low",
                remedies=(shorter_kernels(view, lost_ns, (view.rank,)),),
            )
        )
    return Verdict(findings)


def _slowed(view: RankView) -> tuple[Counter[int], tuple[str, float, float] | None]:
    """Nanoseconds lost by the names of such kernels, and the one that loses most. The same kernel
    is the same name and grid; without grids, a name whose launches alone take about the same."""
    kernels = view.device.take((view.device.kind == Kind.KERNEL) & ~_communicates(view))
    beside_ns = view.line.communication.within_ns(kernels.start_ns, kernels.end_ns)
    beside = beside_ns >= COVERED_RATIO * np.maximum(kernels.duration_ns, 1)
    alone = beside_ns == 0
    lost_ns: Counter[int] = Counter()
    most = 0
    worst = None
    for mine in _alike(view, kernels, beside):
        with_it, without = kernels.duration_ns[mine & beside], kernels.duration_ns[mine & alone]
        if min(len(with_it), len(without)) < LEAST_LAUNCHES:
            continue
        low, usual, high = (float(value) for value in np.quantile(without, (0.1, 0.5, 0.9)))
        slow = float(np.median(with_it))
        if slow <= SLOWED_RATIO * usual or high > STEADY_RATIO * max(low, 1.0):
            continue
        lost = int((slow - usual) * len(with_it))
        lost_ns[int(kernels.name[mine][0])] += lost
        if lost > most:
            most, worst = lost, (view.trace.names[kernels.name[mine][0]], usual, slow)
    return lost_ns, worst


def _alike(view: RankView, kernels: Spans, beside: Bool) -> Iterator[Bool]:
    grids = view.trace.detail.grids
    grid = detail_rows(grids, kernels)
    blocks = np.append(grids.blocks, 0)[grid]  # that of NONE is the last
    _, key = distinct(kernels.name, blocks)
    for number in np.unique(key[beside]):
        yield key == number


def _communicates(view: RankView) -> Bool:
    names = np.array([category(n) is Category.COMMUNICATION for n in view.trace.names], np.bool_)
    mask: Bool = names[view.device.name] & (view.device.kind == Kind.KERNEL)
    return mask
