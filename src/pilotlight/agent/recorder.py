"""One recording while it grows: chunks, sums, processes and manifest, in the order that a killed
agent leaves nothing lost and nothing double."""

from __future__ import annotations

import contextlib
import json
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from errno import EDQUOT, ENOSPC
from pathlib import Path

from pilotlight.agent.counters.rows import DeviceRows
from pilotlight.agent.detail import COMMIT_KEY, Detail
from pilotlight.agent.memory import settle
from pilotlight.agent.roster import Roster
from pilotlight.agent.tables import Tables, packed
from pilotlight.agent.windows import Windows
from pilotlight.recording.manifest import AgentFacts, ClockPair, Lost, Manifest, write_manifest
from pilotlight.recording.schema import GapReason

_ERRORS_KEPT = 10
# Half of what a line of the journal may have: one process may add the other half.
_POSITIONS_BYTES = 512 << 10
_ATTEMPTS = 4


@dataclass(frozen=True)
class Taken:
    """What one process hands over in a commit."""

    process: int
    segment: str
    detail: Tables
    windows: Tables
    positions: Mapping[str, object]

    @property
    def rows(self) -> int:
        return sum(rows for rows, _ in self.detail.values())


@dataclass
class _Gap:
    first_ns: int
    last_ns: int
    count: int


class Recorder:
    """Nothing here raises for what a disk can do: it is counted and in `errors`."""

    def __init__(self, folder: Path, manifest: Manifest, make_room: Callable[[], bool]) -> None:
        """`make_room` frees disk space of whatever recording; False: there is none to free."""
        self.folder = folder
        self.manifest = manifest
        self.detail = Detail(folder / "detail")
        self.windows = Windows(folder)
        self.roster = Roster(folder)
        self.devices = DeviceRows()
        self.rows_dropped = manifest.lost.rows_dropped
        self.errors: deque[str] = deque(manifest.lost.write_errors, _ERRORS_KEPT)
        self.detail.chunks_dropped = manifest.lost.chunks_dropped
        self._make_room = make_room
        self._commit = 0
        self._gaps: dict[int, _Gap] = {}
        self._incomplete = False

    def take_over(self) -> dict[str, object]:
        """Goes on with what a killed agent left; returns the positions by segment."""
        positions = self.detail.take_over()
        commit = positions.pop(COMMIT_KEY, 0)
        self._commit = commit if isinstance(commit, int) else 0
        with self._noting("windows"):
            self.windows.take_over(self._commit)
        return positions

    @property
    def disk_bytes(self) -> int:
        return self.detail.disk_bytes + self.windows.bytes

    @property
    def oldest_ns(self) -> int | None:
        return self.detail.oldest_ns

    def drop_oldest(self) -> bool:
        return self.detail.drop_oldest()

    def repeat_definitions(self) -> None:
        """The next commit begins a new chunk."""
        self._incomplete = True

    def begin_commit(self, now_ns: int, budget_bytes: int) -> bool:
        """Rotates if it is time. True: a new chunk begins, and every process has to repeat its
        definitions and say its position."""
        if self._incomplete or self.detail.is_due(now_ns, budget_bytes):
            with self._noting("detail"):
                self.detail.close()
        if self.detail.is_open:
            return False
        self._incomplete = not self._try("detail", lambda: self.detail.open(now_ns))
        self.devices.new_chunk()
        return True

    def commit(self, taken: Sequence[Taken], now_ns: int) -> None:
        """Data, then journal; the caller moves the tails afterwards."""
        groups = _groups(taken)
        for group in groups or ([[]] if self.devices.is_waiting else []):
            self._commit += 1
            devices, device_windows = self.devices.take()
            sums = [*(one.windows for one in group), device_windows]
            problem = self.windows.add(self._commit, sums)
            if problem and problem not in self.errors:
                self.errors.append(problem)
            self._commit_group(group, devices, now_ns)

    def write_windows(self, now_ns: int, most_bytes: int) -> None:
        """Brings the sums of the last 10 s to their chunk, if it is time."""
        if not self.windows.is_due(now_ns):
            return
        with self._noting("windows"):
            if self.windows.bytes > most_bytes:
                self.windows.drop_waiting()
            else:
                self.windows.write(now_ns)

    def flush_windows(self, now_ns: int) -> None:
        """The same now, for somebody who reads the recording."""
        with self._noting("windows"):
            self.windows.write(now_ns)

    def write_manifest(self, agent: AgentFacts, clocks: tuple[ClockPair, ...]) -> None:
        manifest = replace(
            self.manifest,
            agent=agent,
            clocks=clocks,
            detail_bytes=self.detail.bytes,
            first_chunk=self.detail.first_chunk,
            last_chunk=self.detail.last_chunk,
            lost=Lost(
                chunks_dropped=self.detail.chunks_dropped,
                rows_dropped=self.rows_dropped + self.windows.rows_dropped,
                write_errors=tuple(self.errors),
            ),
        )
        self.manifest = manifest
        self._try("manifest.json", self._put_manifest)
        with self._noting("processes.jsonl"):
            self.roster.retry()

    def close(self) -> None:
        """Ends everything; detail that was kept in memory goes to disk."""
        with self._noting("detail"):
            self.detail.close()
            settle(self.folder)
        with self._noting("windows"):
            self.windows.close()

    def suspend(self) -> None:
        """Another agent will go on: the sums stay open."""
        with self._noting("detail"):
            self.detail.close()
        with self._noting("windows"):
            self.windows.write()

    def _put_manifest(self) -> None:
        try:
            write_manifest(self.folder, self.manifest)
        except FileNotFoundError:
            self._come_back()
            write_manifest(self.folder, self.manifest)
            raise

    def _commit_group(self, group: Sequence[Taken], devices: Tables, now_ns: int) -> None:
        positions: dict[str, object] = {one.segment: one.positions for one in group}
        positions[COMMIT_KEY] = self._commit
        parts = [*(one.detail for one in group), devices]
        if self._gaps:
            parts.append({"gaps": packed("gaps", self._gap_rows())})
        if self.detail.is_open and self._try(
            "detail", lambda: self.detail.commit(parts, positions)
        ):
            self._gaps.clear()
            return
        # Readers need the definitions that went down with these rows: the next chunk repeats them.
        self._incomplete = True
        self.rows_dropped += sum(rows for rows, _ in devices.values())
        for one in group:
            self._count_gap(one.process, one.rows, now_ns)

    def _try(self, what: str, write: Callable[[], None]) -> bool:
        """Writes; on a full disk, again after old chunks were dropped. False: it did not work."""
        for _ in range(_ATTEMPTS):
            try:
                write()
                return True
            except (OSError, ValueError) as error:
                self._note(what, error)
                is_full = isinstance(error, OSError) and error.errno in (ENOSPC, EDQUOT)
                if not is_full or not self._make_room():
                    return False
        return False

    def _count_gap(self, process: int, rows: int, now_ns: int) -> None:
        if not rows:
            return
        self.rows_dropped += rows
        gap = self._gaps.setdefault(process, _Gap(now_ns, now_ns, 0))
        gap.last_ns = now_ns
        gap.count += rows

    def _gap_rows(self) -> list[tuple[int, ...]]:
        return [
            (process, 0, GapReason.OVER_BUDGET, gap.first_ns, gap.last_ns, gap.count)
            for process, gap in self._gaps.items()
        ]

    def _come_back(self) -> None:
        """Somebody removed the folder: what was in it is counted as lost, and we go on."""
        self.folder.mkdir(parents=True, exist_ok=True)
        self.detail.forget()
        self.windows.forget()
        self.roster.rewrite()

    @contextlib.contextmanager
    def _noting(self, what: str) -> Iterator[None]:
        try:
            yield
        except (OSError, ValueError) as error:
            self._note(what, error)

    def _note(self, what: str, error: OSError | ValueError) -> None:
        reason = error.strerror if isinstance(error, OSError) else None
        text = f"{what}: {reason or error}"
        if text not in self.errors:
            self.errors.append(text)


def _groups(taken: Sequence[Taken]) -> list[list[Taken]]:
    """Cut so that the positions of each group fit in one line of the journal."""
    groups: list[list[Taken]] = []
    room = 0
    for one in taken:
        size = len(json.dumps(one.positions)) + 48
        if size > room or not groups:
            groups.append([])
            room = _POSITIONS_BYTES
        groups[-1].append(one)
        room -= size
    return groups
