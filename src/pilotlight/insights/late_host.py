"""The rule about a host that launches late, and what the host does meanwhile."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np

from pilotlight.insights.finding import (
    Finding,
    Remedy,
    Verdict,
    longest,
    milliseconds,
    percent,
)
from pilotlight.insights.host import TINY_RATIO
from pilotlight.insights.idle_time import Idle
from pilotlight.insights.job import Job
from pilotlight.insights.rank import RankView
from pilotlight.insights.stage import like_its_peers
from pilotlight.trace.interval import Intervals, union
from pilotlight.trace.nested import own_parts
from pilotlight.trace.trace import NONE, Kind

HOST_IDLE_RATIO = 0.10
HOST_NAMES = 3
HOST_NAME_RATIO = 0.05
FEW_PAUSES = 3
PAUSES_PER_STEP = 0.5
COMPILED_RATIO = 0.3
PLACE_RATIO = 0.3
ALONE_RATIO = 0.5

_COMPILED = re.compile(r"CompiledFxGraph|Torch-Compiled Region|CompiledFunction")
_FIX = "torch.compile, less Python on the step's path, fewer CPU neighbours"
_FIX_COMPILED = (
    "it is compiled already: CUDA graphs (mode='reduce-overhead'), fewer graph breaks, larger"
    " batches"
)
_FIX_PAUSES = (
    "a first use (loading, autotuning) belongs to the warm-up: trace later steps; else do this"
    " before the step or in another thread"
)


def host_bound(job: Job) -> Verdict:
    """A02: the device waits for the host, for no reason that another rule names."""
    if not any((view.launch != NONE).any() for view in job.ranks):
        return Verdict(missing="no launch calls that belong to the kernels")
    findings = [
        _late(view) for view in job.ranks if view.idle_ratio(Idle.HOST.value) > HOST_IDLE_RATIO
    ]
    if len(findings) == 1 and (alone := _alone(job, findings[0])):
        return Verdict((alone,))
    # A host that is late on all ranks is repaired on all: else the others would hold up the job.
    remedy = Remedy(
        roles=(("host", TINY_RATIO), ("call", TINY_RATIO)),
        ranks=tuple(finding.rank for finding in findings if finding.rank is not None),
    )
    return Verdict([replace(finding, remedies=(remedy,)) for finding in findings])


def _alone(job: Job, finding: Finding) -> Finding | None:
    """Of a rank whose host is late while those of the others are not: as if it were like them."""
    ratios = {view.rank: view.idle_ratio(Idle.HOST.value) for view in job.ranks}
    mine = ratios.pop(finding.rank or 0)
    most = max(ratios.values(), default=mine)
    if most > ALONE_RATIO * mine:
        return None
    column = next(i for i, view in enumerate(job.ranks) if view.rank == finding.rank)
    return replace(
        finding,
        evidence=(*finding.evidence, f"on the other ranks {percent(most)} at most"),
        remedies=like_its_peers(job, column, ("host", "call")),
    )


def _late(view: RankView) -> Finding:
    ratio = view.idle_ratio(Idle.HOST.value)
    gaps = view.line.idle[Idle.HOST] & union(*view.steady_bounds())
    busy = host_operators_during(view, gaps)
    compiled = sum(share for name, share in busy if _COMPILED.search(name)) > COMPILED_RATIO
    finding = Finding(
        rule="A02",
        cause="host",
        title="The host launches too late",
        rank=view.rank,
        place=busy[0][0] if busy else "host",
        evidence=(
            f"the device idles until the next launch: {percent(ratio)} of the step",
            *told_operators(busy),
        ),
        fix=_FIX_COMPILED if compiled else _FIX,
        gain_low_ratio=ratio / 2,
        gain_high_ratio=ratio,
        confidence="medium",
    )
    pauses = _pauses(view, gaps)
    if not len(pauses):
        return finding
    lengths = pauses.lengths_ns()
    told = f"{len(pauses)} of {len(gaps)} gaps are more than half of it, the longest"
    return replace(
        finding,
        title="The host stops launching for long",
        place=busy[0][0] if busy and busy[0][1] > PLACE_RATIO else "host",
        evidence=(*finding.evidence, f"{told} {milliseconds(int(lengths.max()))}"),
        fix=_FIX_PAUSES,
        gain_low_ratio=0.0,
        confidence="low",
        spans=longest(view.rank, "gap", pauses.start_ns, lengths),
    )


def _pauses(view: RankView, gaps: Intervals) -> Intervals:
    """The longest gaps that make half of all, if they are so few that launching as such is not what
    takes the time: then the host does something else for a while."""
    lengths = gaps.lengths_ns()
    order = np.argsort(-lengths, kind="stable")
    half = int(np.searchsorted(np.cumsum(lengths[order]), lengths.sum() / 2)) + 1
    most = max(FEW_PAUSES, int(PAUSES_PER_STEP * len(view.steady)))
    rows = np.sort(order[: half if half <= most else 0])
    return Intervals(gaps.start_ns[rows], gaps.end_ns[rows])


def host_operators_during(view: RankView, gaps: Intervals) -> list[tuple[str, float]]:
    """The operators that the host spends the gaps in, with their share of the gaps: the innermost,
    for those around them are the step itself in the end."""
    spans = view.trace.of_kind(Kind.OPERATOR, Kind.ANNOTATION)
    # What other threads do meanwhile keeps nobody from launching.
    launching = np.isin(spans.lane, np.unique(view.calls.lane[view.launch[view.launch != NONE]]))
    if launching.any():
        spans = spans.take(launching)
    steps = set(np.flatnonzero([n.startswith("ProfilerStep") for n in view.trace.names]))
    spans = spans.take(~np.isin(spans.name, list(steps)))
    if not len(spans) or not gaps.total_ns():
        return []
    inside = gaps.within_ns(spans.start_ns, spans.end_ns)
    rows = np.flatnonzero(inside > 0)
    own_ns = own_parts(spans.take(rows), inside[rows])
    totals = np.bincount(spans.name[rows], own_ns, len(view.trace.names))
    return [
        (view.trace.names[name], min(1.0, float(totals[name]) / gaps.total_ns()))
        for name in np.argsort(-totals, kind="stable")[:HOST_NAMES]
        if totals[name] > HOST_NAME_RATIO * gaps.total_ns()
    ]


def told_operators(busy: list[tuple[str, float]]) -> list[str]:
    return [f"in these gaps the host is in {name}: {percent(share)}" for name, share in busy]
