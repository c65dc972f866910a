"""The ranks of a job prepared for the rules: what several of them need, computed once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean, median

from pilotlight.insights.breakdown import (
    Breakdown,
    Timeline,
    breakdown,
    device_spans,
    launch_rows,
    step_breakdowns,
    timeline,
)
from pilotlight.trace.trace import Int64, Spans, Trace


@dataclass(frozen=True)
class RankView:
    """One rank with device activity."""

    trace: Trace
    line: Timeline
    whole: Breakdown
    steps: tuple[Breakdown, ...]
    device: Spans
    launch: Int64
    calls: Spans

    @property
    def rank(self) -> int:
        return self.trace.rank

    @property
    def steady(self) -> Sequence[Breakdown]:
        """The steps that represent the job. The first traced one holds the start of the profiler;
        without steps it is the whole trace."""
        if not self.steps:
            return (self.whole,)
        return self.steps[1:] if len(self.steps) >= 3 else self.steps

    @property
    def step_ns(self) -> float:
        return median(row.window_ns for row in self.steady)

    @property
    def steady_ns(self) -> int:
        return sum(row.window_ns for row in self.steady)

    def idle_ratio(self, cause: str) -> float:
        """The part of the steady time in which the device idles for this cause."""
        return sum(row.idle_by_cause_ns[cause] for row in self.steady) / self.steady_ns

    def steady_window(self) -> tuple[int, int]:
        steps = self.trace.steps
        if not self.steps:
            return self.line.start_ns, self.line.end_ns
        first = 1 if len(self.steps) >= 3 else 0
        return int(steps.start_ns[first]), int(steps.start_ns[-1] + steps.duration_ns[-1])


@dataclass(frozen=True)
class Job:
    ranks: tuple[RankView, ...]
    traces: tuple[Trace, ...]

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

    @property
    def step_count(self) -> int:
        return max((len(rank.steps) for rank in self.ranks), default=0)


def job_of(traces: Sequence[Trace]) -> Job:
    ranks = []
    for trace in traces:
        line = timeline(trace)
        if line is None:
            continue
        whole = breakdown(trace, line)
        device = device_spans(trace)
        launch, calls = launch_rows(trace, device)
        steps = tuple(step_breakdowns(trace, line))
        ranks.append(RankView(trace, line, whole, steps, device, launch, calls))
    return Job(tuple(ranks), tuple(traces))
