"""A chunk: a folder of Arrow streams and the journal that says which bytes of them count."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Mapping
from pathlib import Path

from pilotlight.errors import FormatError
from pilotlight.recording.arrow import BATCH_LIMIT_BYTES, END_OF_STREAM
from pilotlight.recording.encoder import (
    COMPRESSION_LEVEL,
    BatchEncoder,
    check_columns,
    join_columns,
    schema_message,
)
from pilotlight.recording.journal import (
    JOURNAL_FILE,
    Journal,
    close_line,
    commit_line,
    read_journal,
)
from pilotlight.recording.schema import TABLES, Table
from pilotlight.recording.zstd import ZstdCompressor

JOIN_LIMIT_BYTES = 16 << 20
"""Appends to a table are joined to one batch up to about this size."""


def last_positions(folder: Path) -> dict[str, object]:
    """The newest committed position of each segment; empty if nothing was committed."""
    journal = read_journal(folder)
    return {} if journal is None else journal.positions


class ChunkWriter:
    """Writes one chunk. Only `commit` and `close` touch its files.

    If they raise OSError, the rows since the last commit are discarded, the chunk can be read up to
    that commit, and the writer may be used on.
    """

    def __init__(self, folder: Path) -> None:
        """Creates the chunk, or takes over one that a killed agent left.

        FormatError: it is closed, damaged, or has other columns; begin a new chunk.
        """
        folder.mkdir(parents=True, exist_ok=True)
        journal = read_journal(folder) or Journal()
        if journal.problem:
            raise FormatError(f"{folder / JOURNAL_FILE}: {journal.problem}")
        if journal.closed:
            raise FormatError(f"{folder}: this chunk is closed")
        self._journal = _CommittedFile(folder / JOURNAL_FILE, journal.length_bytes)
        lengths = journal.lengths()
        compressor = ZstdCompressor(level=COMPRESSION_LEVEL)
        self._streams = {
            table.name: _Stream(folder, table, lengths.get(table.file, 0), compressor)
            for table in TABLES.values()
        }

    @property
    def committed_bytes(self) -> int:
        files = (stream.file for stream in self._streams.values())
        return self._journal.length_bytes + sum(file.length_bytes for file in files)

    def append(self, table: str, rows: int, columns: Mapping[str, bytes]) -> None:
        """Takes rows for the next commit. ValueError: these are not columns of that table."""
        stream = self._streams.get(table)
        if stream is None:
            raise ValueError(f"no such table: {table}")
        check_columns(stream.table, rows, columns)
        if rows:
            stream.append(rows, columns)

    def commit(self, positions: Mapping[str, object]) -> None:
        """Makes the rows since the last commit count, with `positions` by segment."""
        grown = [stream for stream in self._streams.values() if stream.has_rows()]
        if grown or positions:
            try:
                data = {stream.table.file: (stream.file, stream.encoded()) for stream in grown}
                lengths = {name: file.length_bytes + len(new) for name, (file, new) in data.items()}
                self._write([*data.values(), (self._journal, commit_line(lengths, positions))])
            finally:
                for stream in grown:
                    stream.forget_rows()

    def close(self) -> None:
        """Ends every stream and closes the files. ValueError: there are uncommitted rows."""
        if any(stream.has_rows() for stream in self._streams.values()):
            raise ValueError("close without a commit of the rows before")
        try:
            files = {
                stream.table.file: stream.file
                for stream in self._streams.values()
                if stream.file.length_bytes
            }
            lengths = {name: file.length_bytes + len(END_OF_STREAM) for name, file in files.items()}
            ends = [(file, END_OF_STREAM) for file in files.values()]
            self._write([*ends, (self._journal, close_line(lengths))])
        finally:
            for stream in self._streams.values():
                stream.file.close()
            self._journal.close()

    def _write(self, additions: list[tuple[_CommittedFile, bytes]]) -> None:
        """All or nothing: the journal comes last, and no length moves before it is written."""
        try:
            for file, data in additions:
                file.write(data)
        except OSError:
            for file, _ in additions:
                file.cut()
            raise
        for file, data in additions:
            file.length_bytes += len(data)


class _Stream:
    """One table of a chunk and its rows since the last commit."""

    def __init__(
        self, folder: Path, table: Table, length_bytes: int, compressor: ZstdCompressor
    ) -> None:
        self.table = table
        self.file = _CommittedFile(folder / table.file, length_bytes)
        self._schema = schema_message(table)
        if length_bytes and self.file.read(len(self._schema)) != self._schema:
            raise FormatError(f"{folder / table.file}: written with other columns")
        self._encoder = BatchEncoder(table, compressor)
        self._batches: list[bytes] = []
        self._pieces: list[Mapping[str, bytes]] = []
        self._rows = 0
        self._bytes = 0

    def has_rows(self) -> bool:
        return bool(self._pieces or self._batches)

    def append(self, rows: int, columns: Mapping[str, bytes]) -> None:
        size_bytes = sum(map(len, columns.values()))
        if size_bytes > BATCH_LIMIT_BYTES:
            raise ValueError(f"{self.table.name}: {rows} rows are too many for one batch")
        if self._pieces and self._bytes + size_bytes > JOIN_LIMIT_BYTES:
            self._encode()
        self._pieces.append(columns)
        self._rows += rows
        self._bytes += size_bytes

    def encoded(self) -> bytes:
        """What the rows since the last commit add to the file."""
        if self._pieces:
            self._encode()
        return b"".join(([] if self.file.length_bytes else [self._schema]) + self._batches)

    def forget_rows(self) -> None:
        self._pieces, self._batches = [], []
        self._rows = self._bytes = 0

    def _encode(self) -> None:
        columns = join_columns(self.table, self._pieces)
        self._batches.append(self._encoder.encode(self._rows, columns))
        self._pieces = []
        self._rows = self._bytes = 0


class _CommittedFile:
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
