"""What findings gain, all by the same estimator: a replay of the recorded job without the cause."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property

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


def too_many_spans(job: Job) -> int | None:
    """How many spans and calls a job has, if they are too many to be replayed."""
    spans = sum(len(view.device) + len(view.calls) for view in job.ranks)
    most = min(MOST_SPANS, max(LEAST_SPANS, _scan.budget_bytes() // SPAN_BYTES))
    return spans if spans > most else None


class Estimator:
    """Prices the findings of one job; its graph is made when the first has something to replay."""

    def __init__(self, job: Job) -> None:
        self._job = job

    @cached_property
    def _replay(self) -> tuple[RecordedGraph | None, str]:
        """The graph of what represents the job, unless it tells nothing; and which it is."""
        if (spans := too_many_spans(self._job)) is not None:
            return None, f"gains by formula: {spans} spans are not replayed"
        try:
            graph = recorded_graph(steady_part(self._job))
        except FormatError as error:
            return None, f"gains by formula: {error}"
        error_ratio = abs(graph.total_ns(graph.duration_ns) / graph.measured_ns - 1)
        if error_ratio > MAX_ERROR_RATIO:
            return None, f"gains by formula: the replay is {100 * error_ratio:.0f} % off"
        return graph, f"gains by replay, which is {100 * error_ratio:.2f} % off"

    def priced(self, findings: Sequence[Finding]) -> list[Finding]:
        """The replay gives the high end; the low end keeps its part of it."""
        graph = self._replay[0] if any(finding.remedies for finding in findings) else None
        if graph is None:
            return list(findings)
        whole_ns = graph.total_ns(graph.duration_ns)
        return [
            _with_gain(finding, _gain(graph, finding, whole_ns)) if finding.remedies else finding
            for finding in findings
        ]

    def together(self, findings: Sequence[Finding]) -> tuple[float | None, str]:
        """What all of them gain, None where nothing was replayed; and how gains were found."""
        remedies = [remedy for finding in findings for remedy in finding.remedies]
        if not remedies:
            return None, ""
        graph, note = self._replay
        if graph is None:
            return None, note
        return 1 - repaired_ns(graph, remedies) / graph.total_ns(graph.duration_ns), note


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
