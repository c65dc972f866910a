"""Turns the columns of a table into Arrow messages. Runs in the agent: no numpy, no pyarrow."""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from typing import Literal, Protocol

from pilotlight.recording import arrow
from pilotlight.recording.flatbuffer import (
    Node,
    Scalar,
    Structs,
    TableView,
    Text,
    Vector,
    build,
)
from pilotlight.recording.schema import UTF8, WIDTH_BYTES, Column, Table
from pilotlight.recording.zstd import ZstdCompressor

COMPRESSION_LEVEL = 1
SMALLEST_COMPRESSED_BYTES = 64

_END = struct.Struct("<i")


def schema_message(table: Table) -> bytes:
    fields = Vector([_field(column) for column in table.columns])
    return _frame(_message(arrow.HEADER_SCHEMA, Node([Scalar("h", 0), fields])))


def _frame(metadata: bytes) -> bytes:
    return arrow.CONTINUATION + struct.pack("<i", len(metadata)) + metadata


def _message(kind: int, header: Node) -> bytes:
    version = Scalar("h", arrow.METADATA_V5)
    return build(Node([version, Scalar("B", kind), header, Scalar("q", 0)]))


def _field(column: Column) -> Node:
    if column.kind == UTF8:
        kind, detail = arrow.TYPE_UTF8, Node([])
    elif column.kind == "f64":
        kind, detail = arrow.TYPE_FLOAT, Node([Scalar("h", arrow.PRECISION_DOUBLE)])
    else:
        bits, signed = arrow.INTEGERS[column.kind]
        kind, detail = arrow.TYPE_INT, Node([Scalar("i", bits), Scalar("B", signed)])
    not_nullable = Scalar("B", 0)
    return Node([Text(column.name), not_nullable, Scalar("B", kind), detail, None, Vector([])])


class Compressor(Protocol):
    """ZstdCompressor, or one that leaves its data as it is."""

    def compress(self, data: bytes, mode: Literal[0, 1, 2], /) -> bytes: ...


class BatchEncoder:
    """Makes the record batches of one table.

    The metadata of a batch has the same shape each time: it is built once and only its numbers are
    set, which is what makes a commit every 50 ms cheap.
    """

    def __init__(self, table: Table, compressor: Compressor) -> None:
        self._compressor = compressor
        self._parts = [part for column in table.columns for part in _parts(column)]
        nodes = Structs(len(table.columns), bytes(16 * len(table.columns)))
        buffers = Structs(len(self._parts), bytes(16 * len(self._parts)))
        compression = Node([Scalar("b", arrow.CODEC_ZSTD), Scalar("b", 0)])
        header = Node([Scalar("q", 0), nodes, buffers, compression])
        self._template = _message(arrow.HEADER_BATCH, header)

        message = TableView.root(self._template)
        batch = message.table(2)
        assert batch is not None
        body_place, rows_place = message.place(3), batch.place(0)
        assert body_place is not None and rows_place is not None
        self._body_place, self._rows_place = body_place, rows_place
        self._nodes_place = batch.vector(1, 16)[0]
        self._buffers_place = batch.vector(2, 16)[0]
        self._nodes = struct.Struct(f"<{2 * len(table.columns)}q")
        self._buffers = struct.Struct(f"<{2 * len(self._parts)}q")
        self._columns = len(table.columns)

    def encode(self, rows: int, columns: Mapping[str, bytes]) -> bytes:
        body = bytearray()
        places: list[int] = []
        for part in self._parts:
            data = columns[part] if part else b""
            stored = self._stored(data)
            places += (len(body), len(stored))
            body += stored
            body += bytes(-len(body) % arrow.ALIGN_BYTES)
        metadata = bytearray(self._template)
        struct.pack_into("<q", metadata, self._body_place, len(body))
        struct.pack_into("<q", metadata, self._rows_place, rows)
        self._nodes.pack_into(metadata, self._nodes_place, *((rows, 0) * self._columns))
        self._buffers.pack_into(metadata, self._buffers_place, *places)
        return b"".join((_frame(bytes(metadata)), body))

    def _stored(self, data: bytes) -> bytes:
        if not data:
            return b""
        if len(data) >= SMALLEST_COMPRESSED_BYTES:
            packed = self._compressor.compress(data, ZstdCompressor.FLUSH_FRAME)
            if len(packed) < len(data):
                return struct.pack("<q", len(data)) + packed
        return struct.pack("<q", arrow.NOT_COMPRESSED) + data


def _parts(column: Column) -> tuple[str, ...]:
    """The buffers of a column by their key in `Columns`; "" is the absent validity bitmap."""
    if column.kind == UTF8:
        return ("", f"{column.name}:offsets", column.name)
    return ("", column.name)


def check_columns(table: Table, rows: int, columns: Mapping[str, bytes]) -> None:
    """ValueError if `columns` are not exactly `rows` rows of the table."""
    known = {part for column in table.columns for part in _parts(column) if part}
    if columns.keys() != known:
        wrong = ", ".join(sorted(known ^ columns.keys()))
        raise ValueError(f"{table.name}: columns missing or unknown: {wrong}")
    for column in table.columns:
        if column.kind == UTF8:
            offsets = columns[f"{column.name}:offsets"]
            _check_length(table, f"{column.name}:offsets", offsets, 4 * (rows + 1))
            if offsets[:4] != bytes(4):
                raise ValueError(f"{table.name}: the offsets of {column.name} do not begin at 0")
            _check_length(table, column.name, columns[column.name], *_END.unpack(offsets[-4:]))
        else:
            width = WIDTH_BYTES[column.kind]
            _check_length(table, column.name, columns[column.name], rows * width)


def _check_length(table: Table, part: str, data: bytes, expected: int) -> None:
    if len(data) != expected:
        raise ValueError(f"{table.name}: {part} has {len(data)} bytes instead of {expected}")


def join_columns(table: Table, pieces: Sequence[Mapping[str, bytes]]) -> Mapping[str, bytes]:
    """The columns of several checked appends one after the other."""
    if len(pieces) == 1:
        return pieces[0]
    joined: dict[str, bytes] = {}
    for column in table.columns:
        joined[column.name] = b"".join(piece[column.name] for piece in pieces)
        if column.kind == UTF8:
            part = f"{column.name}:offsets"
            joined[part] = _join_offsets([piece[part] for piece in pieces])
    return joined


def _join_offsets(pieces: Sequence[bytes]) -> bytes:
    joined = [0]
    for piece in pieces:
        before = joined[-1]
        offsets = struct.unpack(f"<{len(piece) // 4}i", piece)
        joined.extend(before + offset for offset in offsets[1:])
    return struct.pack(f"<{len(joined)}i", *joined)
