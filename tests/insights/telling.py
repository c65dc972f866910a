"""Jobs for the tests of rules: simulated ranks, and what can be added to a trace."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from pilotlight.insights.catalogue import RULES, diagnose
from pilotlight.insights.finding import Finding, Verdict
from pilotlight.insights.job import job_of
from pilotlight.simulate.fault import Fault
from pilotlight.simulate.job import JobShape
from pilotlight.simulate.run import simulate
from pilotlight.trace.trace import Counters, Trace


def with_counters(trace: Trace, counters: Mapping[str, Sequence[float]]) -> Trace:
    """The readings lie evenly over the trace."""
    names = (*trace.names, *counters)
    begin, end = int(trace.spans.start_ns.min()), int(trace.spans.end_ns.max())
    times, numbers, values = [], [], []
    for i, readings in enumerate(counters.values()):
        times += np.linspace(begin, end, len(readings)).astype(np.int64).tolist()
        numbers += [len(trace.names) + i] * len(readings)
        values += list(readings)
    columns = np.array(times, np.int64), np.array(numbers, np.uint32), np.array(values, np.float64)
    return replace(trace, names=names, counters=Counters(*columns))


def verdict(rule: str, *traces: Trace) -> Verdict:
    check = next(each.check for each in RULES if each.identity == rule)
    return check(job_of(traces))


def only(rule: str, *traces: Trace) -> Finding:
    """The one finding of this rule."""
    (finding,) = verdict(rule, *traces).findings
    return finding


def is_silent(rule: str, *traces: Trace) -> bool:
    """It looked, and there was nothing."""
    found = verdict(rule, *traces)
    return not found.findings and not found.missing


def simulated(
    kind: str = "", rank: int = 0, factor: float = 1.5, **shape: Any
) -> tuple[Trace, ...]:
    faults = (Fault(kind, rank, factor),) if kind else ()
    return simulate(JobShape(**{"ranks": 4, "steps": 6, "layers": 4, **shape}), faults)


def first(*traces: Trace) -> tuple[str, int | None]:
    finding = diagnose(job_of(traces)).findings[0]
    return finding.cause, finding.rank
