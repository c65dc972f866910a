"""One job: its processes, its recording and the way from one to the other."""

from __future__ import annotations

import os
import time
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from pilotlight.agent.functions import Functions
from pilotlight.agent.hello import Control
from pilotlight.agent.pidfd import has_died
from pilotlight.agent.process import Process
from pilotlight.agent.recorder import Recorder, Taken
from pilotlight.agent.session import Session
from pilotlight.tier import Coverage, Tier

_REMEMBERED = 256


@dataclass(frozen=True)
class Ended:
    """A process that is no longer there."""

    pid: int
    index: int
    how: str
    time_ns: int


@dataclass(frozen=True)
class Outcome:
    """How a command of the job ended."""

    exit_code: int | None
    signal: int | None

    @property
    def is_failure(self) -> bool:
        return bool(self.exit_code or self.signal)


@dataclass
class Finish:
    """Somebody waits for the end of the job."""

    since_ns: int
    waiting: list[Session] = field(default_factory=list)


@dataclass
class Job:
    name: str
    recorder: Recorder
    positions: Mapping[str, object]  # of segments whose processes have still to come back
    opened_ns: int
    # Handles of those that record a command into it, by pid: a task each, where there are several.
    runners: dict[int, int] = field(default_factory=dict)
    # What the agent had used by then.
    opened_cpu_ns: int = field(default_factory=time.process_time_ns)
    processes: dict[str, Process] = field(default_factory=dict)
    ended: deque[Ended] = field(default_factory=lambda: deque(maxlen=_REMEMBERED))
    finish: Finish | None = None
    outcome: Outcome | None = None
    is_urgent: bool = False  # a ring will soon be full
    is_paused: bool = False
    period_ns: int | None = None
    tier: Tier = Tier.DEFAULT
    empty_since_ns: int | None = None
    committed_ns: int = 0
    wants_functions: bool = False
    ended_read: int = 0
    ended_dropped: int = 0

    def __post_init__(self) -> None:
        self.empty_since_ns = self.opened_ns

    @property
    def folder(self) -> Path:
        return self.recorder.folder

    def add(self, process: Process) -> None:
        self.processes[process.segment] = process
        self.empty_since_ns = None
        if self.wants_functions:
            process.functions = Functions()

    def command_ended(self, pid: int, outcome: Outcome) -> bool:
        """Whether it was the last one; the first that fails is how the job ends."""
        if self.outcome is None or not self.outcome.is_failure:
            self.outcome = outcome
        handle = self.runners.pop(pid, None)
        if handle is not None:
            os.close(handle)
        return not self.is_attended

    @property
    def is_attended(self) -> bool:
        return any(not has_died(handle) for handle in self.runners.values())

    def is_due(self, now_ns: int, commit_ns: int) -> bool:
        """Whether there is something to commit, and it should not wait longer."""
        if self.is_urgent:
            return True
        if self.finish is not None and any(p.how_ended for p in self.processes.values()):
            return True
        if now_ns - self.committed_ns < commit_ns:
            return False
        if self.recorder.devices.is_waiting:
            return True
        return any(process.has_rows for process in self.processes.values())

    def commit(self, now_ns: int, budget_bytes: int) -> list[tuple[Process, Taken]]:
        """Brings what was read to disk, then frees the rings; returns what it was."""
        begins = self.recorder.begin_commit(now_ns, budget_bytes)
        handed = []
        for process in self.processes.values():
            if begins:
                process.reader.new_chunk()
            if begins or process.has_rows:
                handed.append((process, process.take(now_ns)))
                if process.learns():
                    self.recorder.roster.learn(process.segment, process.identity)
                    self._learn_of_parent(process)
        self.recorder.commit([taken for _, taken in handed], now_ns)
        for process, _ in handed:
            if not process.committed():
                process.finish("gone", now_ns)
        self.committed_ns = now_ns
        self.is_urgent = False
        return handed

    def _learn_of_parent(self, process: Process) -> None:
        """Who starts the ranks of a node was numbered by the scheduler, but is none of them."""
        if process.identity.get("role") != "rank":
            return
        for other in self.processes.values():
            if other.pid == process.identity.get("parent_pid") and other.is_mere_task():
                other.lose_number()
                self.recorder.roster.learn(other.segment, other.identity)

    def remove_ended(self, now_ns: int) -> list[Process]:
        """Lets go of processes that are gone and committed; writes their last line."""
        gone = [
            process
            for process in self.processes.values()
            if process.how_ended is not None and not process.has_rows
        ]
        for process in gone:
            facts = process.end(now_ns)
            self.recorder.roster.end(process.segment, facts)
            self.ended.append(Ended(process.pid, process.index, facts.how, now_ns))
            self.ended_read += facts.read
            self.ended_dropped += facts.dropped
            del self.processes[process.segment]
        if not self.processes and self.empty_since_ns is None:
            self.empty_since_ns = now_ns
        return gone

    def look(self, is_wanted: bool) -> None:
        """Begins or ends to keep names and functions for those who look."""
        if is_wanted == self.wants_functions:
            return
        self.wants_functions = is_wanted
        if is_wanted:
            self.recorder.repeat_definitions()
        for process in self.processes.values():
            process.functions = Functions() if is_wanted else None

    def pause(self) -> None:
        self.is_paused = True
        self._send(Control.PAUSE)

    def resume(self) -> None:
        self.is_paused = False
        self._send(Control.RESUME)

    def set_period(self, period_ns: int) -> None:
        self.period_ns = period_ns
        self._send(Control.PERIOD, period_ns)

    def set_tier(self, tier: Tier) -> None:
        """Told only when it changes: those who join are told by themselves."""
        if tier == self.tier:
            return
        self.tier = tier
        self._send(Control.TIER, value=tier)

    def coverage(self) -> list[Coverage]:
        """Of those that use a GPU."""
        found = [process.coverage(process.reader.live()) for process in self.processes.values()]
        return [one for one in found if one is not None]

    def _send(self, kind: Control, argument: int = 0, value: int = 0) -> None:
        for process in self.processes.values():
            process.send(kind, value, argument)
