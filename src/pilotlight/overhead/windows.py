"""Recording switched on and off in windows of one run; steps are compared."""

from __future__ import annotations

import random
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from pilotlight.client import Client
from pilotlight.overhead.cpu import cpu_ns
from pilotlight.overhead.interval import LEAST_PAIRS, Ratio, paired_ratio

LEAST_STEPS = 3
# A step may lie across either end of a window.
_STEPS_OF_A_WINDOW = LEAST_STEPS + 2
_LONGEST_WINDOW_S = 120.0


@dataclass
class Window:
    """A stretch of the run in one state."""

    is_on: bool
    start_ns: int
    end_ns: int = 0
    cpu_ns: int = 0
    step_ns: list[int] = field(default_factory=list)


@dataclass(frozen=True)
class Comparison:
    step_time: Ratio
    cpu_per_step: Ratio | None
    steps: int


class Switcher:
    """Switches a job's recording on and off, in random order within each pair of windows.

    Windows last `window_s`, or longer where that has too few steps.
    """

    def __init__(self, client: Client, job: str, window_s: float, seed: int) -> None:
        self._client = client
        self._job = job
        self._window_s = window_s
        self._chance = random.Random(seed)
        self.windows: list[Window] = []

    def pair(self) -> None:
        """Two windows; raises PilotlightError when the agent or the job is gone."""
        first = self._chance.random() < 0.5
        window_s = long_enough(self._window_s, self._processes())
        for is_on in (first, not first):
            self._client.ask("control", job=self._job, action="resume" if is_on else "pause")
            # The probes hear of it within a tick; what lies between belongs to neither.
            time.sleep(0.05)
            pids = [int(process["pid"]) for process in self._processes()]
            window = Window(is_on, time.monotonic_ns())
            before_ns = cpu_ns(pids)
            time.sleep(window_s)
            window.cpu_ns = cpu_ns(pids) - before_ns
            window.end_ns = time.monotonic_ns()
            self.windows.append(window)

    def _processes(self) -> list[dict[str, Any]]:
        processes = self._client.ask("status")["processes"]
        return [process for process in processes if process["job"] == self._job]


def long_enough(window_s: float, processes: Sequence[Mapping[str, Any]]) -> float:
    """A window in which the slowest of the processes with steps makes enough of them."""
    rates = [float(process["steps_per_s"]) for process in processes]
    slowest = min((rate for rate in rates if rate > 0), default=0.0)
    if not slowest:
        return window_s
    return max(window_s, min(_STEPS_OF_A_WINDOW / slowest, _LONGEST_WINDOW_S))


def place_steps(windows: Sequence[Window], start_ns: Sequence[int], ns: Sequence[int]) -> None:
    """Gives each step that lies wholly in a window to that window."""
    for start, duration in zip(start_ns, ns, strict=True):
        for window in windows:
            if window.start_ns <= start and start + duration <= window.end_ns:
                window.step_ns.append(duration)
                break


def compare(windows: Sequence[Window]) -> Comparison | None:
    """None if the run was too short or had too few steps to say anything."""
    pairs = [
        (a, b) if a.is_on else (b, a)
        for a, b in zip(windows[0::2], windows[1::2], strict=False)
        if min(len(a.step_ns), len(b.step_ns)) >= LEAST_STEPS
    ]
    if len(pairs) < LEAST_PAIRS:
        return None
    steps = [(_mean_step(on), _mean_step(off)) for on, off in pairs]
    # A process that ended in a window took what it had used away.
    cpu = [
        (on.cpu_ns / len(on.step_ns), off.cpu_ns / len(off.step_ns))
        for on, off in pairs
        if min(on.cpu_ns, off.cpu_ns) > 0
    ]
    return Comparison(
        paired_ratio([on for on, _ in steps], [off for _, off in steps]),
        paired_ratio(*zip(*cpu, strict=True)) if len(cpu) >= LEAST_PAIRS else None,
        sum(len(on.step_ns) + len(off.step_ns) for on, off in pairs),
    )


def _mean_step(window: Window) -> float:
    return sum(window.step_ns) / len(window.step_ns)
