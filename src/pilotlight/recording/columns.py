"""The rows of a table over all chunks, as numpy columns."""

from __future__ import annotations

import struct
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from pilotlight.recording.decoder import Batch
from pilotlight.recording.schema import UTF8, Table

Array = npt.NDArray[Any]

TABLE_LIMIT_BYTES = 2 << 30
LATEST_NS = 1 << 61
"""No clock of a node gets here; sums of two such times still fit."""

DTYPES = {"u8": "<u1", "u16": "<u2", "u32": "<u4", "u64": "<u8", "i64": "<i8", "f64": "<f8"}


@dataclass(frozen=True)
class Columns:
    """`arrays` by column; the texts of a utf8 column are in `texts`."""

    rows: int
    arrays: dict[str, Array]
    texts: dict[str, list[str]]

    def __getitem__(self, column: str) -> Array:
        return self.arrays[column]

    def where(self, mask: Array) -> Columns:
        """The rows that `mask` chooses."""
        arrays = {name: array[mask] for name, array in self.arrays.items()}
        chosen = np.flatnonzero(mask).tolist()
        texts = {name: [text[row] for row in chosen] for name, text in self.texts.items()}
        return Columns(len(chosen), arrays, texts)


def group(*columns: Array) -> tuple[list[Array], Array]:
    """The different rows of some columns of integers, in order, and for each row which it is."""
    rows = columns[0].size
    position = np.zeros(rows, np.int64)
    width = 1
    for column in columns:
        values, place = np.unique(column, return_inverse=True)
        if width * max(values.size, 1) >= 1 << 62:
            kept, position = np.unique(position, return_inverse=True)
            width = kept.size
        position = position * max(values.size, 1) + place
        width *= max(values.size, 1)
    _, first, position = np.unique(position, return_index=True, return_inverse=True)
    return [column[first].astype(np.int64) for column in columns], position


def join_batches(table: Table, batches: Iterable[Batch]) -> tuple[Columns, list[str]]:
    """All rows that make sense, and what had to be left out."""
    pieces: dict[str, list[Array]] = {column.name: [] for column in table.columns}
    texts: dict[str, list[str]] = {
        column.name: [] for column in table.columns if column.kind == UTF8
    }
    rows = size_bytes = left_out = 0
    for batch in batches:
        size_bytes += sum(map(len, batch.columns.values()))
        if size_bytes > TABLE_LIMIT_BYTES:
            left_out += batch.rows
            continue
        rows += batch.rows
        for column in table.columns:
            if column.kind == UTF8:
                texts[column.name] += _texts(batch, column.name)
            else:
                data = np.frombuffer(batch.columns[column.name], DTYPES[column.kind])
                pieces[column.name].append(data)
    arrays = {
        column.name: np.concatenate([np.empty(0, DTYPES[column.kind]), *pieces[column.name]])
        for column in table.columns
        if column.kind != UTF8
    }
    warnings = []
    if left_out:
        warnings.append(f"{table.name}: {left_out} rows beyond {TABLE_LIMIT_BYTES} bytes left out")
    columns = Columns(rows, arrays, texts)
    sensible = _sensible(columns)
    if not sensible.all():
        count = rows - int(np.count_nonzero(sensible))
        warnings.append(f"{table.name}: {count} rows with impossible times left out")
        columns = columns.where(sensible)
    return columns, warnings


def _texts(batch: Batch, name: str) -> list[str]:
    data = batch.columns[name]
    offsets = struct.unpack(f"<{batch.rows + 1}i", batch.columns[f"{name}:offsets"])
    words = [data[start:end].decode(errors="replace") for start, end in pairwise(offsets)]
    # A zero ends a text for whoever asks for it by name later.
    return [word.replace("\0", "\ufffd") if "\0" in word else word for word in words]


def _sensible(columns: Columns) -> Array:
    mask = np.ones(columns.rows, bool)
    for name, array in columns.arrays.items():
        if name.endswith("_ns"):
            mask &= (array >= 0) & (array < LATEST_NS)
    return mask
