"""What a rank without a device does longer than the others, where no part of its steps tells it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from statistics import median

from pilotlight.insights.finding import Finding, percent
from pilotlight.insights.host_time import host_operators, host_times
from pilotlight.insights.online.ranks import EXPLAINED_RATIO, UNEXPLAINED
from pilotlight.trace.trace import Trace

OUTSIDE = "no operator: Python, or waiting for something"


def with_host_work(findings: Sequence[Finding], traces: Sequence[Trace]) -> tuple[Finding, ...]:
    """Stragglers that no part of the step explains, with the operator that does."""
    return tuple(
        _explained(finding, traces) if UNEXPLAINED in finding.evidence else finding
        for finding in findings
    )


def _explained(finding: Finding, traces: Sequence[Trace]) -> Finding:
    shares = _shares(traces)
    mine = shares.pop(finding.rank)
    usual = {name: median(other.get(name, 0.0) for other in shares.values()) for name in mine}
    name = max(mine, key=lambda each: mine[each] - usual[each])
    if mine[name] - usual[name] < EXPLAINED_RATIO * finding.gain_high_ratio:
        return finding
    told = f"{percent(mine[name])} of its time in {name}; the others {percent(usual[name])}"
    evidence = tuple(told if text == UNEXPLAINED else text for text in finding.evidence)
    if name == OUTSIDE:
        return replace(finding, evidence=evidence)
    fix = f"look at why {name} takes longer on this rank: its input, its cores, its node"
    return replace(finding, evidence=evidence, fix=fix, place=name)


def _shares(traces: Sequence[Trace]) -> dict[int | None, dict[str, float]]:
    """By rank the parts of its time in the operators themselves, and in none."""
    found: dict[int | None, dict[str, float]] = {}
    windows_ns: dict[int, int] = {}
    for row in host_times(traces):
        windows_ns[row.rank] = max(1, row.window_ns)
        found[row.rank] = {OUTSIDE: row.rest_ns / windows_ns[row.rank]}
    for operator in host_operators(traces):
        share = operator.self_ns / windows_ns[operator.rank]
        found[operator.rank][operator.operator] = share
    return found
