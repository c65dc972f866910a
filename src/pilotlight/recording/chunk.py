"""A chunk: a folder of Arrow streams and the journal that says which bytes of them count."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import BinaryIO

from pilotlight.errors import FormatError
from pilotlight.recording.arrow import BATCH_LIMIT_BYTES, END_OF_STREAM
from pilotlight.recording.committed import CommittedFile
from pilotlight.recording.decoder import Batch, StreamDecoder
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
from pilotlight.recording.source import open_source
from pilotlight.recording.zstd import ZstdCompressor

JOIN_LIMIT_BYTES = 16 << 20
"""Appends to a table are joined to one batch up to about this size."""

WARNINGS_LIMIT = 100


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
        self._journal = CommittedFile(folder / JOURNAL_FILE, journal.length_bytes)
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

    def _write(self, additions: list[tuple[CommittedFile, bytes]]) -> None:
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


class ChunkReader:
    """Reads what was committed of a chunk, also while it grows.

    `warnings` says, file and place, what had to be left out so far.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.warnings: list[str] = []
        self._journal: Journal | None = None
        try:
            self._journal = read_journal(folder)
        except (FormatError, OSError) as error:
            self._warn(JOURNAL_FILE, str(error))
        if self._journal is None and any(folder.glob("*.arrows")):
            self._warn(JOURNAL_FILE, "is missing: each file is read to its last whole batch")
        elif self._journal is not None and self._journal.problem:
            self._warn(JOURNAL_FILE, self._journal.problem)

    @property
    def closed(self) -> bool:
        return self._journal is not None and self._journal.closed

    def read(self, table: str) -> Iterator[Batch]:
        """The batches of a table in the order of their commits."""
        file = TABLES[table].file
        boundaries = [] if self._journal is None else self._journal.boundaries.get(file, [])
        if self._journal is not None and not boundaries:
            return
        try:
            with open_source(self._folder / file) as stream:
                yield from self._read(stream, TABLES[table], boundaries)
        except FileNotFoundError:
            if boundaries:
                self._warn(file, f"is missing, with {boundaries[-1]} bytes committed")
        except (FormatError, OSError) as error:
            self._warn(file, str(error))

    def _read(self, stream: BinaryIO, table: Table, boundaries: list[int]) -> Iterator[Batch]:
        length_bytes = os.fstat(stream.fileno()).st_size
        if boundaries and length_bytes < boundaries[-1]:
            self._warn(table.file, f"has {length_bytes} of {boundaries[-1]} committed bytes")
        elif boundaries:
            length_bytes = boundaries[-1]
        for item in StreamDecoder(stream, table, length_bytes, boundaries).read():
            if isinstance(item, Batch):
                yield item
            else:
                place = f"bytes {item.start} to {item.end}"
                self._warn(table.file, f"{place} left out: {item.reason}")

    def _warn(self, file: str, what: str) -> None:
        name = f"{self._folder.parent.name}/{self._folder.name}/{file}"
        if len(self.warnings) < WARNINGS_LIMIT:
            self.warnings.append(f"{name}: {what}")
        else:
            self.warnings[-1] = f"{name}: {what} (and more before it, not listed)"


class _Stream:
    """One table of a chunk and its rows since the last commit."""

    def __init__(
        self, folder: Path, table: Table, length_bytes: int, compressor: ZstdCompressor
    ) -> None:
        self.table = table
        self.file = CommittedFile(folder / table.file, length_bytes)
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
