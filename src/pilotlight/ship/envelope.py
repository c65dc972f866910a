"""A batch as bytes: a JSON header and an Arrow stream a table. Runs in the agent: no numpy."""

from __future__ import annotations

import struct
from array import array
from collections.abc import Mapping, Sequence
from typing import Literal

from pilotlight.errors import FormatError
from pilotlight.recording import arrow
from pilotlight.recording.encoder import BatchEncoder, schema_message
from pilotlight.recording.fields import parse_json, to_json
from pilotlight.recording.schema import UTF8, Table
from pilotlight.recording.zstd import ZstdCompressor, ZstdDecompressor, ZstdError
from pilotlight.ship.wire import (
    BATCH_LIMIT_BYTES,
    BODY_LIMIT_BYTES,
    HEADER_LIMIT_BYTES,
    MAGIC,
    TABLES,
)

Value = int | float | str
Rows = Sequence[Sequence[Value]]
Json = dict[str, object]

_LEVEL = 3
_LENGTH = struct.Struct("<4sI")
_CODES = {"u8": "B", "u16": "H", "u32": "I", "u64": "Q", "i64": "q", "f64": "d"}
_SCHEMAS = {name: schema_message(table) for name, table in TABLES.items()}


class _Plain:
    """Leaves buffers as they are: the whole body is compressed at once, which is smaller."""

    def compress(self, data: bytes, mode: Literal[0, 1, 2], /) -> bytes:
        return data


_ENCODERS = {name: BatchEncoder(table, _Plain()) for name, table in TABLES.items()}


def seal(header: Mapping[str, object], tables: Mapping[str, Rows]) -> bytes:
    """The compressed body of a batch; `tables` has rows in the order of the columns in wire.py."""
    streams = {name: _stream(name, rows) for name, rows in tables.items() if rows}
    sizes = [[name, len(stream)] for name, stream in streams.items()]
    head = to_json({**header, "tables": sizes})
    plain = b"".join([_LENGTH.pack(MAGIC, len(head)), head, *streams.values()])
    body: bytes = ZstdCompressor(level=_LEVEL).compress(plain, ZstdCompressor.FLUSH_FRAME)
    return body


def unseal(body: bytes) -> tuple[Json, dict[str, memoryview]]:
    """The header and the stream of each table, nothing of which is checked further.

    FormatError: it is no batch, or a bigger one than is allowed.
    """
    if len(body) > BODY_LIMIT_BYTES:
        raise FormatError(f"a batch of more than {BODY_LIMIT_BYTES} bytes")
    decompressor = ZstdDecompressor()
    try:
        plain = decompressor.decompress(body, max_length=BATCH_LIMIT_BYTES)
    except ZstdError as error:
        raise FormatError(f"the batch cannot be decompressed: {error}") from None
    if not decompressor.eof:
        raise FormatError(f"the batch is cut, or has more than {BATCH_LIMIT_BYTES} bytes")
    if len(plain) < _LENGTH.size:
        raise FormatError("not a batch: it is too short")
    magic, size = _LENGTH.unpack_from(plain)
    if magic != MAGIC:
        raise FormatError("not a batch: it does not begin with PLB1")
    if size > min(HEADER_LIMIT_BYTES, len(plain) - _LENGTH.size):
        raise FormatError("the header of the batch is cut or too long")
    end = _LENGTH.size + size
    try:
        header = parse_json(plain[_LENGTH.size : end])
    except (ValueError, RecursionError):
        raise FormatError("the header of the batch is not JSON") from None
    if not isinstance(header, dict):
        raise FormatError("the header of the batch is not an object")
    return header, _streams(header, memoryview(plain)[end:])


def _streams(header: Json, data: memoryview) -> dict[str, memoryview]:
    sizes = header.get("tables")
    if not isinstance(sizes, list):
        raise FormatError("the header has no list of tables")
    found: dict[str, memoryview] = {}
    place = 0
    for entry in sizes:
        if not (isinstance(entry, list) and len(entry) == 2):
            raise FormatError("an entry of tables is not a name and a size")
        name, size = entry
        if not isinstance(name, str) or type(size) is not int or not 0 <= size <= len(data) - place:
            raise FormatError(f"the table {name!r:.40} does not fit in the batch")
        if name in found:
            raise FormatError(f"the table {name!r:.40} is there twice")
        found[name] = data[place : place + size]
        place += size
    return found


def _stream(name: str, rows: Rows) -> bytes:
    batch = _ENCODERS[name].encode(len(rows), pack(TABLES[name], rows))
    return _SCHEMAS[name] + batch + arrow.END_OF_STREAM


def pack(table: Table, rows: Rows) -> dict[str, bytes]:
    """Columns as the encoder takes them."""
    columns: dict[str, bytes] = {}
    for column, values in zip(table.columns, zip(*rows, strict=True), strict=True):
        if column.kind == UTF8:
            texts = [str(value).encode(errors="replace") for value in values]
            offsets = array("i", [0])
            for text in texts:
                offsets.append(offsets[-1] + len(text))
            columns[column.name] = b"".join(texts)
            columns[f"{column.name}:offsets"] = offsets.tobytes()
        else:
            columns[column.name] = array(_CODES[column.kind], values).tobytes()
    return columns
