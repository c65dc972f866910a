"""What the windows chunk has not got yet, on disk: read only by the agent after a killed one."""

from __future__ import annotations

import contextlib
import json
import os
import struct
import zlib
from collections.abc import Sequence
from pathlib import Path

from pilotlight.agent.tables import Tables

_ENTRY = struct.Struct("<4sQII")  # magic, commit, payload bytes, crc
_MAGIC = b"PLSP"
_LARGEST_BYTES = 64 << 20


class Spool:
    """A file of entries, one a commit, emptied as soon as the chunk has them."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._fd: int | None = None
        self._bytes = 0

    def append(self, commit: int, parts: Sequence[Tables]) -> None:
        """OSError: the disk does not take it."""
        payload = b"".join(_packed(part) for part in parts)
        if self._fd is None:
            flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC
            self._fd = os.open(self._path, flags, 0o644)
            os.ftruncate(self._fd, self._bytes)
        entry = _ENTRY.pack(_MAGIC, commit, len(payload), zlib.crc32(payload)) + payload
        done = 0
        while done < len(entry):
            done += os.pwrite(self._fd, entry[done:], self._bytes + done)
        self._bytes += len(entry)

    def cut_after(self, commit: int) -> None:
        """Forgets what later commits appended; what follows is appended behind the rest."""
        self._bytes = 0
        for number, _, end in self._read():
            if number > commit:
                break
            self._bytes = end
        with contextlib.suppress(OSError):
            os.truncate(self._path, self._bytes)

    def clear(self) -> None:
        self._bytes = 0
        if self._fd is not None:
            os.ftruncate(self._fd, 0)

    def remove(self) -> None:
        self.close()
        with contextlib.suppress(OSError):
            self._path.unlink()

    def close(self) -> None:
        if self._fd is not None:
            os.close(self._fd)
            self._fd = None

    def entries(self) -> list[tuple[int, list[Tables]]]:
        """Commit and tables of each whole entry; what a killed agent was writing is left out."""
        return [(commit, _unpacked(payload)) for commit, payload, _ in self._read()]

    def _read(self) -> list[tuple[int, bytes, int]]:
        """Of each whole entry its commit, its payload and where it ends."""
        try:
            with self._path.open("rb") as stream:
                data = stream.read(_LARGEST_BYTES)
        except OSError:
            return []
        found = []
        place = 0
        while place + _ENTRY.size <= len(data):
            magic, commit, size, crc = _ENTRY.unpack_from(data, place)
            payload = data[place + _ENTRY.size : place + _ENTRY.size + size]
            if magic != _MAGIC or len(payload) != size or zlib.crc32(payload) != crc:
                break
            place += _ENTRY.size + size
            found.append((commit, payload, place))
        return found


def _packed(part: Tables) -> bytes:
    head = [
        [table, rows, [[column, len(data)] for column, data in columns.items()]]
        for table, (rows, columns) in part.items()
    ]
    blobs = [data for _, columns in part.values() for data in columns.values()]
    return b"".join([json.dumps(head).encode(), b"\n", *blobs])


def _unpacked(payload: bytes) -> list[Tables]:
    parts = []
    place = 0
    while place < len(payload):
        end = payload.index(b"\n", place)
        head = json.loads(payload[place:end])
        place = end + 1
        part: Tables = {}
        for table, rows, sizes in head:
            columns = {}
            for column, size in sizes:
                columns[column] = payload[place : place + size]
                place += size
            part[table] = (rows, columns)
        parts.append(part)
    return parts
