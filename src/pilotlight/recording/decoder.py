"""Turns Arrow messages back into columns. Nothing in a file is believed before it is checked."""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from typing import BinaryIO

from pilotlight.errors import FormatError
from pilotlight.recording import arrow
from pilotlight.recording.flatbuffer import TableView
from pilotlight.recording.schema import UTF8, WIDTH_BYTES, Column, Table
from pilotlight.recording.zstd import ZstdDecompressor, ZstdError

_REMEMBERED_BYTES = 8192
_KINDS = {shape: kind for kind, shape in arrow.INTEGERS.items()}


@dataclass(frozen=True)
class Batch:
    """Columns in the form in which `ChunkWriter.append` takes them; only those of the table."""

    rows: int
    columns: dict[str, bytes]


@dataclass(frozen=True)
class Damage:
    """Bytes from `start` to `end` that had to be left out, and why."""

    start: int
    end: int
    reason: str


class StreamDecoder:
    """Reads the batches of one table from the first `length_bytes` of a file.

    `boundaries` are places, in order, at which a message is known to begin: after damage the
    reading goes on at the next of them.
    """

    def __init__(
        self, stream: BinaryIO, table: Table, length_bytes: int, boundaries: Sequence[int]
    ) -> None:
        self._stream = stream
        self._table = table
        self._length = length_bytes
        self._boundaries = boundaries
        self._columns: tuple[Column, ...] | None = None

    def read(self) -> Iterator[Batch | Damage]:
        position = 0
        while position < self._length:
            begin = position
            try:
                metadata, body_place = self._metadata(position)
                if metadata is None:
                    return
                message = TableView.root(metadata)
                position = self._end(message, body_place)
            except FormatError as error:
                position = self._resume(begin)
                yield Damage(begin, position, str(error))
                continue
            try:
                batch = self._message(message, metadata, body_place)
            except FormatError as error:
                yield Damage(begin, position, str(error))
                continue
            if batch is not None:
                yield batch

    def _resume(self, position: int) -> int:
        return next((place for place in self._boundaries if place > position), self._length)

    def _metadata(self, position: int) -> tuple[bytes | None, int]:
        prefix = self._bytes(position, 8)
        if prefix[:4] != arrow.CONTINUATION:
            raise FormatError("no message begins here")
        (size,) = struct.unpack("<i", prefix[4:])
        if size == 0:
            return None, position + 8
        if not 0 < size <= arrow.METADATA_LIMIT_BYTES:
            raise FormatError(f"a message claims {size} bytes of metadata")
        return self._bytes(position + 8, size), position + 8 + size

    def _end(self, message: TableView, body_place: int) -> int:
        size = message.scalar(3, "q")
        if not 0 <= size <= self._length - body_place:
            raise FormatError(f"a message claims a body of {size} bytes")
        return body_place + size

    def _bytes(self, position: int, size: int) -> bytes:
        if position + size > self._length:
            raise FormatError("the file ends within a message")
        self._stream.seek(position)
        data = self._stream.read(size)
        if len(data) != size:
            raise FormatError("the file ends within a message")
        return data

    def _message(self, message: TableView, metadata: bytes, body_place: int) -> Batch | None:
        kind = message.scalar(1, "B")
        header = message.table(2)
        if message.scalar(0, "h") != arrow.METADATA_V5 or header is None:
            raise FormatError("a message of another version of Arrow")
        if kind == arrow.HEADER_SCHEMA:
            is_short = len(metadata) <= _REMEMBERED_BYTES
            self._columns = _known_schema(metadata) if is_short else _schema(header)
            return None
        if kind != arrow.HEADER_BATCH:
            raise FormatError(f"a message of unknown kind {kind}")
        if self._columns is None:
            # The schema was damaged; what does not fit ours is found by the checks of sizes.
            self._columns = self._table.columns
        return self._batch(header, body_place, message.scalar(3, "q"))

    def _batch(self, header: TableView, body_place: int, body_bytes: int) -> Batch:
        assert self._columns is not None
        for column in self._table.columns:
            if column not in self._columns:
                raise FormatError(f"there is no column {column.name} of type {column.kind}")
        rows = header.scalar(0, "q")
        if not 0 <= rows <= arrow.BATCH_LIMIT_BYTES:
            raise FormatError(f"a batch claims {rows} rows")
        compression = header.table(3)
        if compression is None or compression.scalar(0, "b") != arrow.CODEC_ZSTD:
            raise FormatError("a batch that is not compressed with zstd")
        nodes = header.structs(1, "qq")
        if len(nodes) != len(self._columns) or any(node != (rows, 0) for node in nodes):
            raise FormatError("a batch whose columns have nulls or other lengths")
        buffers = header.structs(2, "qq")
        if len(buffers) != sum(3 if column.kind == UTF8 else 2 for column in self._columns):
            raise FormatError("a batch with a wrong number of buffers")
        for offset, size in buffers:
            if not (0 <= offset <= body_bytes and 0 <= size <= body_bytes - offset):
                raise FormatError("a buffer lies outside its batch")

        wanted = frozenset(self._table.columns)
        columns: dict[str, bytes] = {}
        budget = arrow.BATCH_LIMIT_BYTES
        following = iter(buffers)
        for column in self._columns:
            next(following)
            if column.kind == UTF8:
                offsets_place, text_place = next(following), next(following)
                if column not in wanted:
                    continue
                offsets = self._buffer(body_place, offsets_place, 4 * (rows + 1), budget)
                last = _check_offsets(offsets)
                budget -= len(offsets)
                text = self._buffer(body_place, text_place, last, budget)
                budget -= len(text)
                columns[f"{column.name}:offsets"], columns[column.name] = offsets, text
            else:
                place = next(following)
                if column not in wanted:
                    continue
                size = rows * WIDTH_BYTES[column.kind]
                columns[column.name] = self._buffer(body_place, place, size, budget)
                budget -= size
        return Batch(rows, columns)

    def _buffer(self, body_place: int, place: tuple[int, ...], expected: int, budget: int) -> bytes:
        """One buffer, whose size is known from elsewhere: its own claim must agree."""
        if expected > budget:
            raise FormatError(f"a batch of more than {arrow.BATCH_LIMIT_BYTES} bytes")
        offset, size = place
        if not expected and size <= 8:
            return b""
        if size < 8:
            raise FormatError("a buffer is missing")
        stored = self._bytes(body_place + offset, size)
        (claimed,) = struct.unpack("<q", stored[:8])
        if claimed == arrow.NOT_COMPRESSED:
            data = stored[8:]
        elif claimed == expected:
            data = _decompressed(stored[8:], expected)
        else:
            raise FormatError(f"a buffer claims {claimed} bytes instead of {expected}")
        if len(data) != expected:
            raise FormatError(f"a buffer has {len(data)} bytes instead of {expected}")
        return data


def _decompressed(stored: bytes, expected: int) -> bytes:
    try:
        data: bytes = ZstdDecompressor().decompress(stored, max_length=expected + 1)
    except ZstdError as error:
        raise FormatError(f"a buffer cannot be decompressed: {error}") from None
    return data


def _check_offsets(offsets: bytes) -> int:
    """The last one; FormatError unless they grow from 0."""
    numbers = struct.unpack(f"<{len(offsets) // 4}i", offsets)
    if numbers[0] != 0 or any(b < a for a, b in pairwise(numbers)):
        raise FormatError("text whose offsets do not grow")
    return int(numbers[-1])


@lru_cache(64)
def _known_schema(metadata: bytes) -> tuple[Column, ...]:
    """Agents of one version send the same bytes again and again."""
    header = TableView.root(metadata).table(2)
    assert header is not None
    return _schema(header)


def _schema(header: TableView) -> tuple[Column, ...]:
    if header.scalar(0, "h") != 0:
        raise FormatError("a big-endian file")
    return tuple(Column(field.text(0), _kind(field)) for field in header.tables(1))


def _kind(field: TableView) -> str:
    kind = field.scalar(2, "B")
    detail = field.table(3)
    if detail is not None:
        if kind == arrow.TYPE_UTF8:
            return UTF8
        if kind == arrow.TYPE_FLOAT and detail.scalar(0, "h") == arrow.PRECISION_DOUBLE:
            return "f64"
        if kind == arrow.TYPE_INT:
            shape = (detail.scalar(0, "i"), bool(detail.scalar(1, "B")))
            if shape in _KINDS:
                return _KINDS[shape]
    raise FormatError(f"column {field.text(0)!r:.40} has a type that is not known")
