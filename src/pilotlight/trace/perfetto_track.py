"""The tracks of a Perfetto trace: which process each belongs to, and what it is called."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from pilotlight.trace.protobuf import fields, signed, text
from pilotlight.trace.trace import NONE

# As we write them: `rank 3`, or `rank 3 of 8` where the size of the world is known.
_RANK = re.compile(r"rank (\d{1,6})(?: of (\d{1,7}))?$")
_MOST_LEVELS = 64
_MOST_LABELS = 64


@dataclass
class _Track:
    name: str = ""
    parent: int = 0
    process: str = ""
    thread: str = ""
    unit: int = 1
    is_incremental: bool = False
    total: float = 0.0


class Tracks:
    def __init__(self) -> None:
        self._tracks: dict[int, _Track] = {}
        self._names_of_processes: dict[str, str] = {}
        self._labels: dict[str, list[str]] = {}
        self._ranks: dict[int, int] = {}
        self._lanes: dict[int, tuple[str, str]] = {}

    def describe(self, descriptor: memoryview) -> None:
        """From a TrackDescriptor; a later one of the same track adds to it."""
        parts = dict(fields(descriptor))
        identity, parent = parts.get(1, 0), parts.get(5, 0)
        if not isinstance(identity, int) or not isinstance(parent, int):
            return
        track = self._tracks.setdefault(identity, _Track())
        track.name = text(parts.get(2, parts.get(10, 0))) or track.name
        track.parent = parent or track.parent
        for number in (3, 4, 8):
            value = parts.get(number)
            if not isinstance(value, memoryview):
                continue
            inner = dict(fields(value))
            if number == 8:
                unit, incremental = inner.get(4, 1), inner.get(5, 0)
                track.unit = signed(unit) if isinstance(unit, int) and unit else 1
                track.is_incremental = bool(incremental)
                continue
            pid = inner.get(1, 0)
            track.process = str(pid)
            if number == 3:
                self._names_of_processes[track.process] = text(inner.get(6, 0))
                labels = [text(label) for field, label in fields(value) if field == 8]
                self._labels[track.process] = labels[:_MOST_LABELS]
            else:
                track.thread = str(inner.get(2, 0))
                track.name = text(inner.get(5, 0)) or track.name
        self._ranks.clear()
        self._lanes.clear()

    def lane(self, identity: int) -> tuple[str, str]:
        """Process and thread, or whatever comes nearest to them."""
        if identity not in self._lanes:
            track = self._tracks.get(identity, _Track())
            process = self._process(identity)
            title = self._names_of_processes.get(process) or process
            self._lanes[identity] = title, track.name or track.thread or str(identity)
        return self._lanes[identity]

    def rank(self, identity: int) -> int:
        if identity not in self._ranks:
            match = _RANK.match(self._names_of_processes.get(self._process(identity), ""))
            self._ranks[identity] = int(match.group(1)) if match else NONE
        return self._ranks[identity]

    def labels(self, rank: int) -> tuple[str, ...]:
        """Of the process that is this rank: its devices, as we write them."""
        for process, match in self._processes_of_ranks():
            if int(match.group(1)) == rank:
                return tuple(self._labels[process])
        return ()

    def world_size(self, rank: int) -> int | None:
        for _, match in self._processes_of_ranks():
            if int(match.group(1)) == rank and match.group(2):
                return int(match.group(2)) or None
        return None

    def counted(self, identity: int, value: float) -> tuple[str, float]:
        """Name and value of a counter after this event."""
        track = self._tracks.get(identity, _Track())
        track.total = track.total + value if track.is_incremental else value
        return track.name, track.total * track.unit

    def _processes_of_ranks(self) -> Iterator[tuple[str, re.Match[str]]]:
        for process, name in self._names_of_processes.items():
            if match := _RANK.match(name):
                yield process, match

    def _process(self, identity: int) -> str:
        for _ in range(_MOST_LEVELS):
            track = self._tracks.get(identity)
            if track is None or track.process:
                return track.process if track else ""
            identity = track.parent
        return ""
