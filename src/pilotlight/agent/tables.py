"""The tables that the native reader hands out, as numbers, texts and rows."""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from itertools import pairwise

from pilotlight.recording.schema import TABLES, UTF8, Column

Columns = dict[str, bytes]
Tables = dict[str, tuple[int, Columns]]

_CODES = {"u8": "B", "u16": "H", "u32": "I", "u64": "Q", "i64": "q"}


def numbers(kind: str, data: bytes) -> list[int]:
    """The values of an integer column."""
    values: array[int] = array(_CODES[kind])
    values.frombytes(data)
    return values.tolist()


def texts(data: bytes, offsets: bytes) -> list[str]:
    """What is not UTF-8 is shown with replacement characters."""
    ends = array("i", offsets)
    return [data[start:end].decode(errors="replace") for start, end in pairwise(ends)]


def lists(table: str, columns: Columns) -> dict[str, list[int] | list[float] | list[str]]:
    """All columns of a table as lists."""
    return {c.name: _values(c, columns) for c in TABLES[table].columns}


def rows(table: str, columns: Columns) -> list[dict[str, object]]:
    """Each row as a dictionary."""
    values = lists(table, columns)
    return [dict(zip(values, row, strict=True)) for row in zip(*values.values(), strict=True)]


def _values(column: Column, columns: Columns) -> list[int] | list[float] | list[str]:
    data = columns[column.name]
    if column.kind == UTF8:
        return texts(data, columns[f"{column.name}:offsets"])
    if column.kind == "f64":
        return array("d", data).tolist()
    return numbers(column.kind, data)


def packed(table: str, rows: Sequence[tuple[int, ...]]) -> tuple[int, Columns]:
    """The other way round, for a table that has only integers: its rows and columns."""
    values = zip(*rows, strict=True) if rows else ((),) * len(TABLES[table].columns)
    return len(rows), {
        column.name: array(_CODES[column.kind], numbers).tobytes()
        for column, numbers in zip(TABLES[table].columns, values, strict=True)
    }
