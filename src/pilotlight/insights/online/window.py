"""What the rules know of a rank while the job runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from pilotlight.trace.trace import Float64, Int64

# Parts of a step, each a value a step. A part that nobody measured is absent, not zero.
LOADER = "loader"
LOADER_IDLE = "loader_idle"
GC = "gc"
COLLECTIVE = "collective"
COLLECTIVE_WAIT = "collective_wait"
EXPOSED_COMMUNICATION = "exposed_communication"
CHECKPOINT = "checkpoint"
COMPILE = "compile"
SYNC = "sync"
COMPUTE = "compute"
# Forward, backward and optimizer where only the host is seen; with what they wait for other ranks
# where nobody tells it apart.
PHASES = "phases"
PARTS = (
    LOADER, LOADER_IDLE, GC, COLLECTIVE, COLLECTIVE_WAIT, EXPOSED_COMMUNICATION, CHECKPOINT,
    COMPILE, SYNC, COMPUTE, PHASES,
)  # fmt: skip

# A running job is asked again and again: what few steps show by chance must not be told.
STALL_STEPS = 20

# Counters, each the mean over the window.
SM_CLOCK_MHZ = "sm_clock_mhz"
THROTTLE_RATIO = "throttle_ratio"
TEMPERATURE_C = "temperature_c"
RUN_QUEUE_RATIO = "run_queue_ratio"
CGROUP_THROTTLED_RATIO = "cgroup_throttled_ratio"
IO_WAIT_RATIO = "io_wait_ratio"
MEMORY_USED_RATIO = "memory_used_ratio"
COUNTERS = (
    SM_CLOCK_MHZ, THROTTLE_RATIO, TEMPERATURE_C, RUN_QUEUE_RATIO, CGROUP_THROTTLED_RATIO,
    IO_WAIT_RATIO, MEMORY_USED_RATIO,
)  # fmt: skip


@dataclass(frozen=True)
class CollectiveSum:
    """Collectives of one operation in one group. `wait_ns` is the part before the last rank came;
    None where nobody knows it. `bytes` is the sum of what one rank put in."""

    operation: str
    group: str
    size: int
    count: int
    bytes: int
    total_ns: float
    wait_ns: float | None = None


@dataclass(frozen=True)
class Progress:
    """Where a rank is. `entered` and `finished`: by group the number of its last collective;
    `operations`: what the one entered is."""

    last_step_ns: int
    entered: Mapping[str, int] = field(default_factory=dict)
    finished: Mapping[str, int] = field(default_factory=dict)
    operations: Mapping[str, str] = field(default_factory=dict)
    stack: str = ""
    is_alive: bool = True


@dataclass(frozen=True)
class RankWindow:
    """The steps of a rank in the order of time; all columns have a value a step."""

    rank: int
    step: Sequence[int]
    step_ns: Sequence[float]
    parts_ns: Mapping[str, Sequence[float]] = field(default_factory=dict)
    collectives: Sequence[CollectiveSum] = ()
    counters: Mapping[str, float] = field(default_factory=dict)
    node: str = ""
    device: str = ""
    progress: Progress | None = None


@dataclass(frozen=True)
class Ranks:
    """The steps that all ranks have, as tables with a row a rank and a column a step."""

    windows: tuple[RankWindow, ...]
    step: Int64
    step_ns: Float64
    stall_steps: int = STALL_STEPS
    are_apart: bool = False
    """Steps with many others between them: no single disturbance lasts over several."""
    _parts: dict[str, Float64] = field(default_factory=dict)

    @property
    def rank(self) -> list[int]:
        return [window.rank for window in self.windows]

    @property
    def are_traced(self) -> bool:
        """Steps that somebody chose to trace: there are no others to wait for."""
        return self.stall_steps < STALL_STEPS

    @property
    def typical_ns(self) -> float:
        """The median step; a step is as long as its slowest rank makes it."""
        return float(np.median(self.step_ns.max(axis=0)))

    @property
    def total_ns(self) -> float:
        return float(self.step_ns.max(axis=0).sum())

    def latest(self, steps: int) -> Ranks:
        """The last of them, to be compared as steps that are apart."""
        return replace(
            self,
            step=self.step[-steps:],
            step_ns=self.step_ns[:, -steps:],
            are_apart=True,
            _parts={},
        )

    def part(self, name: str) -> Float64 | None:
        """None unless every rank knows it."""
        if not all(name in window.parts_ns for window in self.windows):
            return None
        if name not in self._parts:
            columns = [_column(w, w.parts_ns[name], self.step) for w in self.windows]
            self._parts[name] = np.stack(columns)
        return self._parts[name]

    def counter(self, name: str) -> Float64 | None:
        """A value a rank; None unless every rank knows it."""
        if not all(name in window.counters for window in self.windows):
            return None
        return np.array([window.counters[name] for window in self.windows], np.float64)

    def own_ns(self) -> Float64 | None:
        """What a rank takes of a step without what it spends in communication: of ranks that go in
        step, the one with the longest holds up the others. None if nothing tells it."""
        for name in (EXPOSED_COMMUNICATION, COLLECTIVE_WAIT, COLLECTIVE):
            spent = self.part(name)
            if spent is not None:
                return np.maximum(self.step_ns - spent, 0.0)
        return None


def ranks_of(
    windows: Sequence[RankWindow], stall_steps: int = STALL_STEPS, are_apart: bool = False
) -> Ranks:
    """Ranks that report no step are left out here; `hang` looks at all of them."""
    chosen = sorted((w for w in windows if len(w.step)), key=lambda window: window.rank)
    if not chosen:
        return Ranks((), np.empty(0, np.int64), np.empty((0, 0)))
    common = set(chosen[0].step).intersection(*(window.step for window in chosen[1:]))
    step = np.array(sorted(common), np.int64)
    table = np.stack([_column(window, window.step_ns, step) for window in chosen])
    return Ranks(tuple(chosen), step, table, stall_steps, are_apart)


def _column(window: RankWindow, values: Sequence[float], step: Int64) -> Float64:
    numbers, found = np.asarray(window.step, np.int64), np.asarray(values, np.float64)
    if not np.array_equal(numbers, step):
        order = np.argsort(numbers, kind="stable")
        found = found[order[np.searchsorted(numbers[order], step)]]
    return np.where(np.isfinite(found), found, 0.0)
