"""Reads the spans and counters of traces that `convert` wrote as Parquet."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from pilotlight.errors import FormatError
from pilotlight.trace.block import EXPANSION_GRACE_BYTES, MAX_EXPANSION_RATIO
from pilotlight.trace.parquet_writer import COUNTER, METADATA
from pilotlight.trace.span_table import SpanTable
from pilotlight.trace.step import steps_of
from pilotlight.trace.trace import NONE, Kind, Steps, Trace

ROWS_AT_ONCE = 1 << 16
ROW_BYTES = 41  # of a span in memory
MAX_RANKS = 100_000
_NUMBERS = ("rank", "start_ns", "duration_ns", "correlation", "bytes")
# Kept as numbers of their distinct values: a long name of many rows is in memory once.
_TEXTS = ("kind", "name", "process", "thread", "lane")
_COLUMNS = (*_NUMBERS, *_TEXTS, "value")
_KINDS = {kind.name.lower(): kind for kind in Kind}

Row = tuple[Any, ...]


def read_parquet(path: Path) -> tuple[Trace, ...]:
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError:
        raise FormatError(
            f"{path}: byte 0: reading parquet needs pyarrow: pip install pyarrow"
        ) from None
    tables: dict[int, SpanTable] = defaultdict(lambda: SpanTable(str(path)))
    lane_names: dict[tuple[str, str], str] = {}
    try:
        _check(pyarrow.parquet.read_metadata(path), path)
        file = pyarrow.parquet.ParquetFile(path, read_dictionary=list(_TEXTS))
        for row in _rows(pyarrow, file):
            _add(tables, lane_names, row)
            if len(tables) > MAX_RANKS:
                raise FormatError(f"{path}: more than {MAX_RANKS} ranks: refused")
        told = _told(file.schema_arrow.metadata)
    except (pyarrow.ArrowException, OSError, OverflowError, LookupError, ValueError) as error:
        text = " ".join(str(error).split())[:120]
        raise FormatError(f"{path}: damaged parquet file ({text})") from None
    return tuple(
        _trace(table, path, rank, lane_names, told.get(str(rank), {}))
        for rank, table in sorted(tables.items())
    )


def _check(metadata: Any, path: Path) -> None:
    names = metadata.schema.names
    if "optype" in names and "start_ts" in names:
        raise FormatError(f"{path}: byte 0: rows of operations: for `pilotlight whatif`")
    missing = [name for name in _COLUMNS if name not in names]
    if missing:
        raise FormatError(
            f"{path}: byte 0: no column {missing[0]}: not a Parquet file that `convert` writes"
        )
    rows_bytes = metadata.num_rows * ROW_BYTES
    if rows_bytes > max(EXPANSION_GRACE_BYTES, MAX_EXPANSION_RATIO * path.stat().st_size):
        raise FormatError(f"{path}: byte 0: expands more than {MAX_EXPANSION_RATIO}-fold: refused")


def _rows(pyarrow: Any, file: Any) -> Iterator[Row]:
    for batch in file.iter_batches(ROWS_AT_ONCE, columns=list(_COLUMNS)):
        numbers = [
            batch.column(name).cast(pyarrow.int64()).fill_null(NONE).to_pylist()
            for name in _NUMBERS
        ]
        texts = [_texts(pyarrow, batch.column(name)) for name in _TEXTS]
        value = batch.column("value").cast(pyarrow.float64()).to_pylist()
        yield from zip(*numbers, *texts, value, strict=True)


def _texts(pyarrow: Any, column: Any) -> list[str]:
    if not pyarrow.types.is_dictionary(column.type):
        column = column.cast(pyarrow.string()).dictionary_encode()
    distinct = [text or "" for text in column.dictionary.cast(pyarrow.string()).to_pylist()]
    return [distinct[number] if number is not None else "" for number in column.indices.to_pylist()]


def _add(tables: dict[int, SpanTable], lane_names: dict[tuple[str, str], str], row: Row) -> None:
    rank, start_ns, duration_ns, correlation, size, kind, name, process, thread, lane, value = row
    table = tables[rank]
    if kind == COUNTER:
        table.add_counter(start_ns, name, float("nan") if value is None else value)
        return
    found = _KINDS.get(kind, Kind.OTHER)
    table.add(start_ns, duration_ns, found, name, (process, thread), correlation, size)
    if lane:
        lane_names[process, thread] = lane


def _told(metadata: Mapping[bytes, bytes] | None) -> dict[str, Any]:
    """What the writer says of each rank beside its rows."""
    try:
        told = json.loads((metadata or {}).get(METADATA, b"{}"))
    except ValueError:
        return {}
    return told if isinstance(told, dict) else {}


def _trace(
    table: SpanTable, path: Path, rank: int, lane_names: dict[tuple[str, str], str], told: Any
) -> Trace:
    told = told if isinstance(told, dict) else {}
    world, devices = told.get("world_size"), told.get("devices")
    names, spans = tuple(table.names), table.spans()
    return Trace(
        source=str(path),
        format="parquet",
        rank=rank,
        world_size=world if isinstance(world, int) and world > 0 else None,
        devices=tuple(map(str, devices)) if isinstance(devices, list) else (),
        names=names,
        lanes=table.lane_table(lane_names),
        spans=spans,
        counters=table.counters(),
        steps=_steps(told.get("steps")) or steps_of(names, spans),
        problems=tuple(table.problems()),
    )


def _steps(rows: Any) -> Steps | None:
    try:
        columns = np.array(rows, np.int64).reshape(-1, 3).T
    except (TypeError, ValueError, OverflowError):
        return None
    in_order = bool((np.diff(columns[1]) > 0).all()) and bool((columns[1:] >= 0).all())
    return Steps(*map(np.ascontiguousarray, columns)) if columns.size and in_order else None
