"""Tables as the native reader hands them out: joined over processes, or as rows for subscribers."""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from itertools import pairwise

from pilotlight.recording.schema import TABLES, UTF8

Columns = dict[str, bytes]
Tables = dict[str, tuple[int, Columns]]

_CODES = {"u8": "B", "u16": "H", "u32": "I", "u64": "Q", "i64": "q", "f64": "d"}


def merge(parts: Sequence[Tables]) -> Tables:
    """The rows of all parts, in their order: one batch a table instead of one a process."""
    if len(parts) == 1:
        return parts[0]
    pieces: dict[str, list[tuple[int, Columns]]] = {}
    for part in parts:
        for name, piece in part.items():
            pieces.setdefault(name, []).append(piece)
    return {
        name: (sum(rows for rows, _ in found), _join([columns for _, columns in found]))
        for name, found in pieces.items()
    }


def _join(pieces: Sequence[Columns]) -> Columns:
    if len(pieces) == 1:
        return pieces[0]
    joined: Columns = {}
    for name in pieces[0]:
        if name.endswith(":offsets"):
            joined[name] = _join_offsets([piece[name] for piece in pieces])
        else:
            joined[name] = b"".join(piece[name] for piece in pieces)
    return joined


def _join_offsets(pieces: Sequence[bytes]) -> bytes:
    offsets = array("i", [0])
    for piece in pieces:
        values = array("i", piece)
        by = offsets[-1] - values[0]
        offsets.extend([value + by for value in values[1:]])
    return offsets.tobytes()


def numbers(table: str, column: str, columns: Columns) -> list[int]:
    """The values of one integer column."""
    kind = next(c.kind for c in TABLES[table].columns if c.name == column)
    return memoryview(columns[column]).cast("B").cast(_CODES[kind]).tolist()


def rows(table: str, columns: Columns) -> list[dict[str, object]]:
    """Each row as a dictionary; text that is not UTF-8 is shown with replacement characters."""
    lists: list[list[object]] = []
    for column in TABLES[table].columns:
        if column.kind == UTF8:
            lists.append(list(texts(columns, column.name)))
        else:
            lists.append(list(memoryview(columns[column.name]).cast("B").cast(_CODES[column.kind])))
    names = [column.name for column in TABLES[table].columns]
    return [dict(zip(names, values, strict=True)) for values in zip(*lists, strict=True)]


def texts(columns: Columns, column: str) -> list[str]:
    data, offsets = columns[column], array("i", columns[f"{column}:offsets"])
    return [data[start:end].decode(errors="replace") for start, end in pairwise(offsets)]
