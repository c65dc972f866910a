"""One rank prepared for the rules: what several of them need, computed once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

import numpy as np

from pilotlight.insights.breakdown import Breakdown, Timeline
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
    def traced_ns(self) -> int:
        """What all device time of the trace is a part of: steps begin before their first kernel."""
        steps = self.trace.steps
        if not self.steps:
            return self.whole.window_ns
        length_ns = int(steps.start_ns[-1] + steps.duration_ns[-1] - steps.start_ns[0])
        return max(self.whole.window_ns, length_ns)

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

    @property
    def all_idle_ratio(self) -> float:
        """The part of the steady time in which the device idles."""
        return sum(row.idle_ns for row in self.steady) / self.steady_ns

    def idle_ratio(self, cause: str) -> float:
        """The part of the steady time in which the device idles for this cause."""
        return sum(row.idle_by_cause_ns[cause] for row in self.steady) / self.steady_ns

    def steady_bounds(self) -> tuple[Int64, Int64]:
        """Begin and end of each steady step."""
        steps = self.trace.steps
        if not self.steps:
            return np.array([self.line.start_ns]), np.array([self.line.end_ns])
        first = 1 if len(self.steps) >= 3 else 0
        start_ns = steps.start_ns[first:]
        return start_ns, start_ns + steps.duration_ns[first:]

    def steady_window(self) -> tuple[int, int]:
        steps = self.trace.steps
        if not self.steps:
            return self.line.start_ns, self.line.end_ns
        first = 1 if len(self.steps) >= 3 else 0
        return int(steps.start_ns[first]), int(steps.start_ns[-1] + steps.duration_ns[-1])
