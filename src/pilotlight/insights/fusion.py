"""Rules about kernels that could be one: chains bound by memory, the optimizer."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np

from pilotlight.insights.finding import Finding, Verdict, longest, percent
from pilotlight.insights.job import Job
from pilotlight.insights.kernel import Category, category, short_name
from pilotlight.insights.rank import RankView
from pilotlight.insights.shorter import shorter_kernels
from pilotlight.trace.interval import union
from pilotlight.trace.trace import NONE, Bool, Int64, Kind, Spans

CHAIN_LEAST = 2
CHAIN_MOST = 15
CHAIN_REPEATS = 5
CHAIN_RATIO = 0.01
CHAIN_GAIN_RATIO = 0.02
NEIGHBOUR_NS = 20_000
OPTIMIZER_RATIO = 0.10
OPTIMIZER_KERNELS = 50
# Of an unfused Adam some thirty passes over the parameters remain seven.
FUSED_LEAST, FUSED_MOST = 0.25, 0.5

_CHAINED = (Category.ELEMENTWISE, Category.NORM, Category.SOFTMAX, Category.REDUCTION)
_OPTIMIZER = re.compile(r"optimizer\.step|optim.*\.step|^optimizer\b", re.IGNORECASE)
_FUSED = re.compile(r"fusedadam|fused_adam|fused_sgd|fusedsgd|FusedOptimizer", re.IGNORECASE)


def unfused_chains(job: Job) -> Verdict:
    """A13: kernels bound by memory follow each other and pass their results through memory."""
    findings = []
    for view in job.ranks[:1]:
        chains = _chains(view)
        total_ns = sum(chain.total_ns for chain in chains.values())
        lost_ns = sum(chain.lost_ns for chain in chains.values())
        window_ns = view.traced_ns
        ratio, gain = total_ns / window_ns, lost_ns / window_ns
        if ratio < CHAIN_RATIO or gain < CHAIN_GAIN_RATIO:
            continue
        worst = max(chains, key=lambda names: chains[names].lost_ns)
        names = [short_name(view.trace.names[name]) for name in worst]
        first = view.trace.names[worst[0]]
        findings.append(
            Finding(
                rule="A13",
                cause="unfused",
                title="Chains of memory-bound kernels could be one kernel each",
                rank=view.rank,
                place=" + ".join(names[:4]),
                evidence=(
                    f"chains of 2 to 15 such kernels take {percent(ratio)} of the step",
                    f"{len(chains)} different ones, the worst of {len(worst)} kernels takes"
                    f" {percent(chains[worst].total_ns / window_ns)}",
                ),
                fix="torch.compile, a fused operator or Triton; channels_last for convolutions",
                gain_low_ratio=gain / 2,
                gain_high_ratio=gain,
                confidence="low",
                spans=longest(view.rank, first, *np.array(chains[worst].first_spans).T),
                remedies=(shorter_kernels(view, _lost_by_name(chains)),),
            )
        )
    return Verdict(findings)


def unfused_optimizer(job: Job) -> Verdict:
    """A19: the optimizer runs many small kernels."""
    ranges = [_optimizer_kernels(view) for view in job.ranks]
    if not any(mask is not None for mask in ranges):
        return Verdict(missing="no range of an optimizer with launch calls in it")
    findings = []
    for view, mask in zip(job.ranks, ranges, strict=True):
        if mask is None or not mask.any():
            continue
        spans = view.device.take(mask)
        fused = any(_FUSED.search(view.trace.names[n]) for n in np.unique(spans.name))
        steps = max(1, len(view.steps))
        busy_ns = union(spans.start_ns, spans.end_ns).total_ns()
        elapsed_ns = _elapsed_ns(spans.start_ns, spans.end_ns)
        window_ns = view.traced_ns
        if fused or (
            elapsed_ns / window_ns <= OPTIMIZER_RATIO or len(spans) / steps < OPTIMIZER_KERNELS
        ):
            continue
        high = (elapsed_ns - FUSED_LEAST * busy_ns) / window_ns
        low = (busy_ns - FUSED_MOST * busy_ns) / window_ns
        findings.append(
            Finding(
                rule="A19",
                cause="optimizer",
                title="The optimizer is not fused",
                rank=view.rank,
                place="optimizer",
                evidence=(
                    f"{len(spans) / steps:.0f} kernels a step in {percent(elapsed_ns / window_ns)}"
                    " of the time",
                ),
                fix="fused=True or foreach=True for the optimizer, clipping and averaging",
                gain_low_ratio=max(0.0, min(low, high)),
                gain_high_ratio=max(0.0, high),
                confidence="medium",
                spans=longest(view.rank, "optimizer", spans.start_ns, spans.duration_ns),
            )
        )
    return Verdict(findings)


@dataclass
class _Chain:
    """What the repeats of a chain take, and what they take beyond the longest kernel of each, which
    a fused one would still need; begin and length of the first kernel of each."""

    total_ns: int = 0
    lost_ns: int = 0
    lost_by_name: Counter[int] = field(default_factory=Counter)
    first_spans: list[tuple[int, int]] = field(default_factory=list)


def _chains(view: RankView) -> dict[tuple[int, ...], _Chain]:
    """By the names of their kernels."""
    kernels = view.device.take(view.device.kind == Kind.KERNEL)
    used = np.unique(kernels.name).tolist()
    mine = {name: category(view.trace.names[name]) in _CHAINED for name in used}
    kernels = kernels.take(np.lexsort((kernels.start_ns, kernels.lane)))
    runs = list(_runs(kernels, mine))
    names = Counter(tuple(kernels.name[begin:end].tolist()) for begin, end in runs)
    found: dict[tuple[int, ...], _Chain] = defaultdict(_Chain)
    for begin, end in runs:
        name = tuple(kernels.name[begin:end].tolist())
        if names[name] >= CHAIN_REPEATS:
            lengths = kernels.duration_ns[begin:end]
            chain = found[name]
            chain.total_ns += int(lengths.sum())
            chain.lost_ns += int(lengths.sum() - lengths.max())
            for place, (kernel, length) in enumerate(zip(name, lengths.tolist(), strict=True)):
                chain.lost_by_name[kernel] += length if place != lengths.argmax() else 0
            chain.first_spans.append((int(kernels.start_ns[begin]), int(lengths[0])))
    return found


def _runs(kernels: Spans, mine: dict[int, bool]) -> Iterator[tuple[int, int]]:
    """Begin and end of the rows of each chain: neighbours on a stream that are all `mine`."""
    columns = (kernels.lane, kernels.start_ns, kernels.duration_ns, kernels.name)
    begin, previous, row = 0, (NONE, 0), -1
    for row, (lane, start, length, name) in enumerate(
        zip(*(column.data for column in columns), strict=True)
    ):
        follows = lane == previous[0] and start - previous[1] < NEIGHBOUR_NS
        if not mine[name] or not follows or row - begin == CHAIN_MOST:
            if row - begin >= CHAIN_LEAST:
                yield begin, row
            begin = row if mine[name] else row + 1
        previous = lane, start + length
    if row + 1 - begin >= CHAIN_LEAST:
        yield begin, row + 1


def _lost_by_name(chains: dict[tuple[int, ...], _Chain]) -> Counter[int]:
    lost: Counter[int] = Counter()
    for chain in chains.values():
        lost.update(chain.lost_by_name)
    return lost


def _optimizer_kernels(view: RankView) -> Bool | None:
    """The device spans launched within ranges of an optimizer; None if there is no such range."""
    wanted = np.array([bool(_OPTIMIZER.search(name[:200])) for name in view.trace.names])
    spans = view.trace.spans
    host = np.isin(spans.kind, (Kind.OPERATOR, Kind.ANNOTATION, Kind.OTHER))
    ranges = spans.take(wanted[spans.name] & host)
    if not len(ranges) or not (view.launch != NONE).any():
        return None
    inside = union(ranges.start_ns, ranges.end_ns)
    time_ns = view.calls.start_ns[view.launch]
    mask: Bool = (view.launch != NONE) & (inside.within_ns(time_ns, time_ns + 1) > 0)
    return mask


def _elapsed_ns(start_ns: Int64, end_ns: Int64) -> int:
    """With gaps between neighbours, without those between steps."""
    order = np.argsort(start_ns, kind="stable")
    gaps = start_ns[order][1:] - np.maximum.accumulate(end_ns[order])[:-1]
    near = gaps[(gaps > 0) & (gaps < 10 * NEIGHBOUR_NS)]
    return union(start_ns, end_ns).total_ns() + int(near.sum())
