"""Who belongs to a recording: keeps processes.jsonl, also through a disk that is full."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path

from pilotlight.recording.processes import ProcessEnd, ProcessStart, append_event, read_processes

_MOST_WAITING = 20_000
# How often a process may say something new of itself.
_MOST_TOLD = 20


class Roster:
    """Lines that the disk does not take wait, up to a bound; beyond it they count as `lost`."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.lost = 0
        self._running: dict[str, ProcessStart] = {}
        self._told: dict[str, int] = {}
        self._waiting: deque[ProcessStart | ProcessEnd] = deque()
        processes, _ = read_processes(folder)
        for process in processes:
            if process.end is None:
                self._running[process.start.segment] = process.start
        self.count = 1 + max((process.start.process for process in processes), default=-1)

    @property
    def running(self) -> Iterable[ProcessStart]:
        """Those that have a start and no end."""
        return tuple(self._running.values())

    def start(self, facts: ProcessStart) -> int:
        """Gives the process its index: the one it has if its start is on record already."""
        known = self._running.get(facts.segment)
        if known is not None:
            return known.process
        started = replace(facts, process=self.count)
        self.count += 1
        self._running[started.segment] = started
        self._write(started)
        return started.process

    def learn(self, segment: str, identity: Mapping[str, object]) -> None:
        """Says again who it is; the last line counts."""
        known = self._running.get(segment)
        if known is not None and self._told.get(segment, 0) < _MOST_TOLD:
            self._told[segment] = self._told.get(segment, 0) + 1
            self._running[segment] = replace(known, identity=identity)
            self._write(self._running[segment])

    def end(self, segment: str, facts: ProcessEnd) -> None:
        self._told.pop(segment, None)
        if self._running.pop(segment, None) is not None:
            self._write(facts)

    def retry(self) -> None:
        """Writes what waits; OSError if it still cannot be."""
        while self._waiting:
            append_event(self._folder, self._waiting[0])
            self._waiting.popleft()

    def rewrite(self) -> None:
        """The file is gone: says again who is running."""
        self._waiting.extendleft(reversed(self._running.values()))

    def _write(self, event: ProcessStart | ProcessEnd) -> None:
        self._waiting.append(event)
        try:
            self.retry()
        except OSError:
            if len(self._waiting) > _MOST_WAITING:
                self._waiting.popleft()
                self.lost += 1
