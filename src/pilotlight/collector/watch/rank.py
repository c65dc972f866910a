"""The latest steps of one rank, in memory."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from pilotlight.insights.online import CollectiveSum, Progress, RankWindow
from pilotlight.insights.online.window import COMPUTE, EXPOSED_COMMUNICATION, PHASES
from pilotlight.recording.columns import Array
from pilotlight.ship.wire import PARTS, WAIT_KNOWN
from pilotlight.store.batch import Cost

MOST_STEPS = 240
# Nodes tell at different times: what is kept of their steps has to reach over a few batches.
_REACH_NS = 60_000_000_000
_REACH_BATCHES = 3

# The names of the rules for our parts.
_RULE_PARTS = {
    "compute_ns": "compute",
    "communication_ns": "exposed_communication",
    "loader_ns": "loader",
    "gc_ns": "gc",
    "sync_ns": "sync",
    "checkpoint_ns": "checkpoint",
    "compile_ns": "compile",
}
COLUMNS = ("step", "start_ns", "duration_ns", *PARTS, "wait_ns", "known")
_OF_A_DEVICE = 1 << PARTS.index("host_ns")


@dataclass
class RecentRank:
    node: str
    agent: str
    role: str = "rank"
    device: str = ""
    gpu: int = -1
    rows: Array = field(default_factory=lambda: np.empty((0, len(COLUMNS)), np.int64))
    # Of fast steps those that a power of two divides, to reach further back than all of them.
    _thin: Array = field(default_factory=lambda: np.empty((0, len(COLUMNS)), np.int64))
    _stride: int = 1
    # Of a host that tells of some of its steps only what they waited: the latest of these.
    told: Array = field(default_factory=lambda: np.empty((0, len(COLUMNS)), np.int64))
    counters: dict[str, float] = field(default_factory=dict)
    collectives: tuple[CollectiveSum, ...] = ()
    first_step_ns: int = 0
    last_step_ns: int = 0
    entered: dict[str, int] = field(default_factory=dict)
    finished: dict[str, int] = field(default_factory=dict)
    operations: dict[str, str] = field(default_factory=dict)
    stack: str = ""
    ended_ns: int = 0
    heard_ns: int = 0
    every_ns: int = 0  # how often its agent sends
    longest_new_ns: int = 0  # of the steps since the last look
    cost: Cost = field(default_factory=Cost)

    def add(self, rows: Array) -> None:
        if not len(rows):
            return
        self.longest_new_ns = max(self.longest_new_ns, int(rows[:, 2].max()))
        self.rows = _newest(self.rows, rows, MOST_STEPS)
        if not (rows[:, -1] & _OF_A_DEVICE).any():
            self.told = _newest(self.told, rows[rows[:, -1] & WAIT_KNOWN != 0], MOST_STEPS)
        self._stride = _stride(rows)
        if self._stride > 1:
            self._thin = _newest(self._thin, rows[rows[:, 0] % self._stride == 0], MOST_STEPS)
        self.first_step_ns = self.first_step_ns or int(rows[:, 1].min())
        last = self.rows[-1]
        self.last_step_ns = max(self.last_step_ns, int(last[1] + last[2]))

    @property
    def is_told_now_and_then(self) -> bool:
        """What a host that sees no device waits for others is told of some of its steps."""
        known = self.rows[:, -1]
        is_of_all = bool((known & WAIT_KNOWN != 0).all())
        return bool(len(self.told)) and not is_of_all and not (known & _OF_A_DEVICE).any()

    @property
    def thin(self) -> Array:
        """Not all of the latest steps, but of a longer time."""
        return self._thin if self._stride > 1 else self.rows

    def window(self, rank: int, rows: Array) -> RankWindow:
        return self._window(rank, rows, self.is_told_now_and_then)

    def told_window(self, rank: int, steps: Array) -> RankWindow:
        return self._window(rank, self.told[np.isin(self.told[:, 0], steps)], False)

    def _window(self, rank: int, rows: Array, is_told_now_and_then: bool) -> RankWindow:
        known = int(np.bitwise_and.reduce(rows[:, -1])) if len(rows) else 0
        parts = {
            _RULE_PARTS[part]: rows[:, 3 + index]
            for index, part in enumerate(PARTS)
            if part in _RULE_PARTS and known >> index & 1
        }
        # What only the host is seen to do says nothing of a device.
        if COMPUTE in parts and not known & _OF_A_DEVICE:
            parts[PHASES] = parts.pop(COMPUTE)
        if is_told_now_and_then:
            communication = parts.pop(EXPOSED_COMMUNICATION, 0)
            if PHASES in parts:
                parts[PHASES] = parts[PHASES] + communication
        elif len(rows) and int(np.bitwise_or.reduce(rows[:, -1])) & WAIT_KNOWN:
            parts["collective_wait"] = rows[:, 3 + len(PARTS)]
        return RankWindow(
            rank=rank,
            step=rows[:, 0].tolist(),
            step_ns=rows[:, 2].tolist(),
            parts_ns={name: column.tolist() for name, column in parts.items()},
            collectives=self.collectives,
            counters=self.counters,
            node=self.node,
            device=self.device,
            progress=Progress(
                last_step_ns=self.last_step_ns,
                entered=self.entered,
                finished=self.finished,
                operations=self.operations,
                stack=self.stack,
                is_alive=not self.ended_ns,
            )
            if self.last_step_ns
            else None,
        )


def _stride(rows: Array) -> int:
    """So that as many steps as are kept reach over some batches of this rank."""
    told_ns = int(rows[:, 1].max() - rows[:, 1].min())
    reach_ns = max(_REACH_NS, _REACH_BATCHES * told_ns)
    usual_ns = max(1.0, float(np.median(rows[:, 2])))
    stride = 1
    while stride * usual_ns * MOST_STEPS < reach_ns:
        stride *= 2
    return stride


def _newest(rows: Array, more: Array, most: int) -> Array:
    """In the order of time."""
    joined = np.concatenate([rows, more])
    return joined[np.argsort(joined[:, 1], kind="stable")][-most:]
