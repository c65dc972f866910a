"""Packs rows of Python values into the columns that ChunkWriter takes."""

from __future__ import annotations

import struct
from collections.abc import Sequence

from pilotlight.recording.schema import TABLES, UTF8

_CODES = {"u8": "B", "u16": "H", "u32": "I", "u64": "Q", "i64": "q", "f64": "d"}

Value = int | float | str


def pack_rows(table: str, rows: Sequence[Sequence[Value]]) -> dict[str, bytes]:
    """Each row has its values in the order of the table's columns."""
    columns: dict[str, bytes] = {}
    for index, column in enumerate(TABLES[table].columns):
        values = [row[index] for row in rows]
        if column.kind == UTF8:
            texts = [str(value).encode() for value in values]
            offsets = [0]
            for text in texts:
                offsets.append(offsets[-1] + len(text))
            columns[column.name] = b"".join(texts)
            columns[f"{column.name}:offsets"] = struct.pack(f"<{len(offsets)}i", *offsets)
        else:
            columns[column.name] = struct.pack(f"<{len(values)}{_CODES[column.kind]}", *values)
    return columns
