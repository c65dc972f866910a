"""A file that is written in commits: what a cut leaves behind the last one does not count."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

from pilotlight.errors import FormatError


class CommittedFile:
    """A file of which the first `length_bytes` count; writes go there and never move it."""

    def __init__(self, path: Path, length_bytes: int) -> None:
        self.path = path
        self.length_bytes = length_bytes
        self._descriptor: int | None = None
        if path.exists():
            self._descriptor = os.open(path, os.O_RDWR | os.O_CLOEXEC)
            if os.fstat(self._descriptor).st_size < length_bytes:
                self.close()
                raise FormatError(f"{path}: shorter than the {length_bytes} bytes committed")
            os.ftruncate(self._descriptor, length_bytes)
        elif length_bytes:
            raise FormatError(f"{path}: is gone, with {length_bytes} bytes committed")

    def read(self, size_bytes: int) -> bytes:
        return os.pread(self._open(), size_bytes, 0)

    def write(self, data: bytes) -> None:
        descriptor = self._open()
        view = memoryview(data)
        done = 0
        while done < len(view):
            done += os.pwrite(descriptor, view[done:], self.length_bytes + done)

    def cut(self) -> None:
        if self._descriptor is not None:
            with contextlib.suppress(OSError):
                os.ftruncate(self._descriptor, self.length_bytes)

    def close(self) -> None:
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None

    def _open(self) -> int:
        if self._descriptor is None:
            flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC
            self._descriptor = os.open(self.path, flags, 0o644)
        return self._descriptor
