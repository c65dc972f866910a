"""Batches on disk before they are acknowledged: segments that are written, synced and replayed."""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import struct
import time
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

_ENTRY = struct.Struct("<4sIII")  # magic, bytes of the head, of the body, checksum of both
_MAGIC = b"PLSG"
_LARGEST_BYTES = 64 << 20
_SUFFIX = ".batches"


@dataclass(frozen=True)
class Entry:
    """A body as it came, and what was known of it then."""

    tenant: str
    received_ns: int
    offset_ns: int
    uncertainty_ns: int
    body: bytes

    def packed(self) -> bytes:
        head = json.dumps(
            [self.tenant, self.received_ns, self.offset_ns, self.uncertainty_ns]
        ).encode()
        payload = head + self.body
        return _ENTRY.pack(_MAGIC, len(head), len(self.body), zlib.crc32(payload)) + payload


class Segment:
    """One file; its name is the token under which its rows enter the store once."""

    def __init__(self, folder: Path) -> None:
        """OSError: the disk does not take it."""
        number = max(time.time_ns(), _newest(folder) + 1)
        self.path = folder / f"{number:020d}-{secrets.token_hex(4)}{_SUFFIX}"
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
        self._fd = os.open(self.path, flags, 0o600)
        self.bytes = 0
        try:
            sync_folder(folder)
        except OSError:
            os.close(self._fd)
            self.path.unlink(missing_ok=True)
            raise

    @property
    def token(self) -> str:
        return token(self.path)

    def append(self, entries: Sequence[Entry]) -> None:
        """On disk when it returns. OSError: none of them is, what was there before stays."""
        data = b"".join(entry.packed() for entry in entries)
        try:
            done = 0
            while done < len(data):
                done += os.pwrite(self._fd, data[done:], self.bytes + done)
            os.fdatasync(self._fd)
        except OSError:
            with contextlib.suppress(OSError):
                os.ftruncate(self._fd, self.bytes)
            raise
        self.bytes += len(data)

    def close(self) -> None:
        os.close(self._fd)


def token(path: Path) -> str:
    return path.name.removesuffix(_SUFFIX)


def segments(folder: Path) -> list[Path]:
    """What a killed collector left, oldest first."""
    return sorted(folder.glob(f"*{_SUFFIX}"))


def _newest(folder: Path) -> int:
    """Segments are taken in order of their names, also after the clock was set back."""
    digits = [path.name.split("-")[0] for path in segments(folder)[-1:]]
    return int(digits[0]) if digits and digits[0].isdecimal() else 0


def whole_entries(path: Path) -> bytes | None:
    """All of a segment but a torn end; None if it is damaged."""
    packed = []
    for entry in read_segment(path):
        if isinstance(entry, str):
            return None
        packed.append(entry.packed())
    return b"".join(packed)


def read_segment(path: Path) -> Iterator[Entry | str]:
    """Whole entries; a text says what is wrong where the file does not go on.

    The end of the last entry may be missing: it was never acknowledged.
    """
    size = path.stat().st_size
    with path.open("rb") as stream:
        place = 0
        while place < size:
            stream.seek(place)
            prefix = stream.read(_ENTRY.size)
            if len(prefix) < _ENTRY.size:
                return
            magic, head_bytes, body_bytes, checksum = _ENTRY.unpack(prefix)
            if magic != _MAGIC or head_bytes + body_bytes > _LARGEST_BYTES:
                found = _next_entry(path, place + 1)
                yield f"{path.name}: no entry at byte {place}"
                if found is None:
                    return
                place = found
                continue
            end = place + _ENTRY.size + head_bytes + body_bytes
            if end > size and _next_entry(path, place + 1) is None:
                return
            payload = stream.read(head_bytes + body_bytes)
            entry = _entry(payload, head_bytes, checksum)
            if entry is None:
                yield f"{path.name}: the entry at byte {place} is damaged"
                found = _next_entry(path, place + 1)
                if found is None:
                    return
                place = found
                continue
            yield entry
            place = end


def _entry(payload: bytes, head_bytes: int, checksum: int) -> Entry | None:
    if zlib.crc32(payload) != checksum:
        return None
    try:
        tenant, received_ns, offset_ns, uncertainty_ns = json.loads(payload[:head_bytes])
    except ValueError:
        return None
    return Entry(
        str(tenant), int(received_ns), int(offset_ns), int(uncertainty_ns), payload[head_bytes:]
    )


def _next_entry(path: Path, start: int) -> int | None:
    """Where the next entry begins that is whole, by its magic and its checksum."""
    data = path.read_bytes()
    place = data.find(_MAGIC, start)
    while place >= 0:
        if place + _ENTRY.size <= len(data):
            _, head_bytes, body_bytes, checksum = _ENTRY.unpack_from(data, place)
            begin = place + _ENTRY.size
            payload = data[begin : begin + head_bytes + body_bytes]
            if len(payload) == head_bytes + body_bytes and zlib.crc32(payload) == checksum:
                return place
        place = data.find(_MAGIC, place + 1)
    return None


def sync_folder(folder: Path) -> None:
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
