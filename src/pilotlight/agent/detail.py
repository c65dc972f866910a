"""The flight recorder of one recording: a row of chunks, the oldest of which may be dropped."""

from __future__ import annotations

import contextlib
import shutil
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from pilotlight.agent.tables import Tables
from pilotlight.errors import FormatError
from pilotlight.recording.chunk import ChunkWriter, last_positions

COMMIT_KEY = "commit"
"""Among the positions of a journal line: the number of the commit. No segment has such an id."""

_ROTATE_NS = 30_000_000_000
_ROTATE_BYTES = 8 << 20
# A chunk is a dozen files, of which each takes whole blocks of the disk.
_CHUNK_OVERHEAD_BYTES = 64 << 10


@dataclass(frozen=True)
class Chunk:
    number: int
    folder: Path
    bytes: int
    since_ns: int

    @property
    def disk_bytes(self) -> int:
        return self.bytes + _CHUNK_OVERHEAD_BYTES


class Detail:
    """`open`, `commit` and `close` raise OSError when the disk does not take it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.chunks_dropped = 0
        self._closed: deque[Chunk] = deque(_found(folder))
        self._next = self._closed[-1].number + 1 if self._closed else 1
        self._writer: ChunkWriter | None = None
        self._open: Chunk | None = None

    def take_over(self) -> dict[str, object]:
        """Ends the chunk that a killed agent left open; returns the newest positions of all."""
        positions: dict[str, object] = {}
        for chunk in self._closed:
            positions.update(last_positions(chunk.folder))
        if self._closed:
            last = self._closed[-1]
            # Closed already, or damaged: then it is read as far as it goes.
            with contextlib.suppress(FormatError, OSError):
                ChunkWriter(last.folder).close()
            self._closed[-1] = Chunk(last.number, last.folder, _size(last.folder), last.since_ns)
        return positions

    @property
    def chunks(self) -> Sequence[Chunk]:
        return [*self._closed, *([self._open] if self._open else [])]

    @property
    def bytes(self) -> int:
        return sum(chunk.bytes for chunk in self.chunks)

    @property
    def disk_bytes(self) -> int:
        return sum(chunk.disk_bytes for chunk in self.chunks)

    @property
    def first_chunk(self) -> int:
        return self.chunks[0].number if self.chunks else self._next

    @property
    def last_chunk(self) -> int:
        return self._next - 1

    @property
    def oldest_ns(self) -> int | None:
        """Since when the oldest chunk that could be dropped is there."""
        return self._closed[0].since_ns if self._closed else None

    @property
    def is_open(self) -> bool:
        return self._open is not None

    def open(self, now_ns: int) -> None:
        """Begins a chunk."""
        folder = self.folder / f"{self._next:06d}"
        self._writer = ChunkWriter(folder)
        self._open = Chunk(self._next, folder, 0, now_ns)
        self._next += 1

    def commit(self, parts: Sequence[Tables], positions: Mapping[str, object]) -> None:
        """Makes the rows and positions count, in the open chunk."""
        assert self._writer is not None and self._open is not None
        for part in parts:
            for table, (rows, columns) in part.items():
                self._writer.append(table, rows, columns)
        self._writer.commit(positions)
        chunk = self._open
        self._open = Chunk(chunk.number, chunk.folder, self._writer.committed_bytes, chunk.since_ns)

    def is_due(self, now_ns: int, budget_bytes: int) -> bool:
        """Whether the open chunk is old or large enough to be closed."""
        chunk = self._open
        if chunk is None or not chunk.bytes:
            return False
        largest = min(_ROTATE_BYTES, max(budget_bytes // 8, 64 << 10))
        return now_ns - chunk.since_ns >= _ROTATE_NS or chunk.bytes >= largest

    def close(self) -> None:
        """Ends the open chunk, if there is one."""
        if self._writer is None or self._open is None:
            return
        writer, chunk = self._writer, self._open
        self._writer = self._open = None
        try:
            writer.close()
        finally:
            self._closed.append(
                Chunk(chunk.number, chunk.folder, writer.committed_bytes, chunk.since_ns)
            )

    def drop_oldest(self) -> bool:
        """Removes the oldest closed chunk; False if there is none."""
        if not self._closed:
            return False
        chunk = self._closed.popleft()
        shutil.rmtree(chunk.folder, ignore_errors=True)
        self.chunks_dropped += 1
        return True

    def forget(self) -> None:
        """The folder was taken away under us: what was there is lost, numbers go on."""
        self.chunks_dropped += len(self.chunks)
        self._closed.clear()
        if self._writer is not None:
            with contextlib.suppress(OSError, ValueError):
                self._writer.close()
        self._writer = self._open = None


def _found(folder: Path) -> list[Chunk]:
    if not folder.is_dir():
        return []
    numbers = sorted(int(entry.name) for entry in folder.iterdir() if entry.name.isdigit())
    return [
        Chunk(number, folder / f"{number:06d}", _size(folder / f"{number:06d}"), 0)
        for number in numbers
        if (folder / f"{number:06d}").is_dir()
    ]


def _size(folder: Path) -> int:
    return sum(entry.stat().st_size for entry in folder.iterdir() if entry.is_file())
