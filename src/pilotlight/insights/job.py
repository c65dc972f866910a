"""The ranks of a job prepared for the rules: what several of them need, computed once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from statistics import fmean

import numpy as np

from pilotlight.insights.breakdown import breakdown, device_spans, step_breakdowns, timeline
from pilotlight.insights.collective import Collectives, match_collectives
from pilotlight.insights.followed import followed
from pilotlight.insights.launched import launch_rows
from pilotlight.insights.rank import RankView
from pilotlight.trace.step import lasting
from pilotlight.trace.trace import Float64, Steps, Trace


@dataclass(frozen=True)
class Job:
    ranks: tuple[RankView, ...]
    traces: tuple[Trace, ...]

    @cached_property
    def collectives(self) -> Collectives | None:
        """Matched across the ranks; None if there is nothing to match."""
        return match_collectives(self.ranks)

    @property
    def step_ns(self) -> float:
        return fmean(rank.step_ns for rank in self.ranks)

    def worst_idle(self, cause: str) -> tuple[RankView, float]:
        """The rank that idles most for this cause, and the part of the time that the job loses if
        each step is as long as its slowest rank makes it."""
        length = min(len(view.steady) for view in self.ranks)
        idle = [[row.idle_by_cause_ns[cause] for row in v.steady[:length]] for v in self.ranks]
        windows = [sum(row.window_ns for row in view.steady[:length]) for view in self.ranks]
        lost = sum(max(step) for step in zip(*idle, strict=True))
        worst = max(range(len(self.ranks)), key=lambda i: sum(idle[i]))
        return self.ranks[worst], lost / fmean(windows)

    @cached_property
    def step_compute_ns(self) -> Float64:
        """What each rank (row) computes in each steady step (column)."""
        length = min(len(view.steady) for view in self.ranks)
        rows = [[row.compute_ns for row in view.steady[:length]] for view in self.ranks]
        return np.array(rows, np.float64)

    @property
    def step_count(self) -> int:
        return max((len(rank.steps) for rank in self.ranks), default=0)


def steady_part(job: Job) -> Job:
    """The steps that represent the job, without the start of the profiler."""
    traces = []
    for view in job.ranks:
        start_ns, end_ns = view.steady_window()
        spans = view.trace.spans
        inside = (spans.start_ns >= start_ns) & (spans.start_ns < end_ns)
        steps = view.trace.steps
        chosen = (steps.start_ns >= start_ns) & (steps.start_ns < end_ns)
        kept = Steps(steps.number[chosen], steps.start_ns[chosen], steps.duration_ns[chosen])
        traces.append(replace(view.trace, spans=spans.take(inside), steps=kept))
    return job_of(traces)


def job_of(traces: Sequence[Trace]) -> Job:
    ranks = []
    for trace in traces:
        device = device_spans(trace)
        launch, calls = launch_rows(trace, device)
        found = followed(lasting(trace.steps), device, launch, calls)
        trace = replace(trace, steps=found)
        line = timeline(trace)
        if line is None:
            continue
        whole = breakdown(trace, line)
        steps = tuple(step_breakdowns(trace, line))
        ranks.append(RankView(trace, line, whole, steps, device, launch, calls))
    return Job(tuple(ranks), tuple(traces))
