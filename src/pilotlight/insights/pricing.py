"""What findings gain, all by the same estimator: a replay of the recorded job without the cause."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from pilotlight import _scan
from pilotlight.errors import FormatError
from pilotlight.insights.finding import Finding
from pilotlight.insights.job import Job, steady_part
from pilotlight.insights.recorded_graph import RecordedGraph, recorded_graph
from pilotlight.insights.repair import repaired_ns

# Larger jobs keep the formulas of their rules: a graph takes some memory a span, of which the
# least is taken whatever the budget.
LEAST_SPANS, MOST_SPANS = 200_000, 2_000_000
SPAN_BYTES = 200
MAX_ERROR_RATIO = 0.05


@dataclass(frozen=True)
class Prices:
    """Findings with their gains, and of them all together; None where nothing was replayed."""

    findings: tuple[Finding, ...]
    joint_gain_ratio: float | None
    note: str


def too_many_spans(job: Job) -> int | None:
    """How many spans and calls a job has, if they are too many to be replayed."""
    spans = sum(len(view.device) + len(view.calls) for view in job.ranks)
    most = min(MOST_SPANS, max(LEAST_SPANS, _scan.budget_bytes() // SPAN_BYTES))
    return spans if spans > most else None


def priced(job: Job, findings: Sequence[Finding]) -> Prices:
    """The replay gives the high end; the low end keeps its part of it."""
    chosen = [finding for finding in findings if finding.remedies]
    if not chosen:
        return Prices(tuple(findings), None, "")
    if (spans := too_many_spans(job)) is not None:
        return Prices(tuple(findings), None, f"gains by formula: {spans} spans are not replayed")
    try:
        graph = recorded_graph(steady_part(job))
    except FormatError as error:
        return Prices(tuple(findings), None, f"gains by formula: {error}")
    whole_ns = graph.total_ns(graph.duration_ns)
    error_ratio = abs(whole_ns / graph.measured_ns - 1)
    if error_ratio > MAX_ERROR_RATIO:
        text = f"gains by formula: the replay is {100 * error_ratio:.0f} % off"
        return Prices(tuple(findings), None, text)
    gains = [_gain(graph, finding, whole_ns) if finding.remedies else None for finding in findings]
    together = [remedy for finding in chosen for remedy in finding.remedies]
    joint = 1 - repaired_ns(graph, together) / whole_ns
    rows = tuple(
        finding if gain is None else _with_gain(finding, gain)
        for finding, gain in zip(findings, gains, strict=True)
    )
    return Prices(rows, joint, f"gains by replay, which is {100 * error_ratio:.2f} % off")


def _gain(graph: RecordedGraph, finding: Finding, whole_ns: float) -> float:
    gain = max(0.0, 1 - repaired_ns(graph, finding.remedies) / whole_ns)
    # A host that never waits, or is faster, also runs ahead of its loader: that gain is another
    # finding's.
    bounded = any(
        remedy.waits or any(role == "host" for role, _ in remedy.roles)
        for remedy in finding.remedies
    )
    return min(gain, finding.gain_high_ratio) if bounded else gain


def _with_gain(finding: Finding, gain: float) -> Finding:
    high = finding.gain_high_ratio
    part = finding.gain_low_ratio / high if high > 0 else 1.0
    return replace(finding, gain_low_ratio=gain * part, gain_high_ratio=gain)
