"""Exports of Nsight Systems of any shape: tables and columns that are there or not, any values."""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping, Sequence
from pathlib import Path

PROCESS = 0x1000000000000 | (77 << 24)
_DEVICE = ("start", "end", "globalPid", "deviceId", "streamId", "correlationId")
_SIDES = tuple(f"{what}{axis}" for what in ("grid", "block") for axis in "XYZ")
# Each column with a value that makes sense.
TABLES: dict[str, dict[str, object]] = {
    "StringIds": {"id": 1, "value": "gemm"},
    "TARGET_INFO_GPU": {"id": 0, "name": "NVIDIA H100 80GB HBM3"},
    "CUPTI_ACTIVITY_KIND_KERNEL": {
        **dict(zip(_DEVICE, (5, 9, PROCESS, 0, 7, 3), strict=True)),
        "demangledName": 1, "shortName": 1, **dict.fromkeys(_SIDES, 4),
    },
    "CUPTI_ACTIVITY_KIND_GRAPH_TRACE": dict(zip(_DEVICE, (9, 12, PROCESS, 0, 7, 4), strict=True)),
    "CUPTI_ACTIVITY_KIND_MEMCPY": {
        **dict(zip(_DEVICE, (12, 15, PROCESS, 0, 7, 5), strict=True)),
        "copyKind": 1, "srcKind": 1, "dstKind": 2, "bytes": 1000,
    },
    "CUPTI_ACTIVITY_KIND_MEMSET": {
        **dict(zip(_DEVICE, (15, 16, PROCESS, 0, 7, 6), strict=True)), "bytes": 10,
    },
    "CUPTI_ACTIVITY_KIND_SYNCHRONIZATION": {
        **dict(zip(_DEVICE, (16, 17, PROCESS, 0, 7, 7), strict=True)), "syncType": 3,
    },
    "CUPTI_ACTIVITY_KIND_RUNTIME": {
        "start": 1, "end": 2, "globalTid": PROCESS | 9, "correlationId": 3, "nameId": 1,
    },
    "NVTX_EVENTS": {
        "start": 0, "end": 20, "globalTid": PROCESS | 9, "eventType": 59, "text": "step 1",
        "textId": None,
    },
}  # fmt: skip
CELLS = [(table, column) for table, columns in TABLES.items() for column in columns]
SPANS = 7


def write(
    path: Path,
    without: Sequence[tuple[str, str]] = (),
    changed: Mapping[tuple[str, str], object] | None = None,
    copies: int = 1,
) -> Path:
    """An export that lacks some columns and has other values in some cells. Columns have no type:
    SQLite would make numbers of texts."""
    connection = sqlite3.connect(path)
    connection.execute("PRAGMA synchronous = OFF")
    connection.execute("PRAGMA journal_mode = OFF")
    for table, columns in TABLES.items():
        left = {
            column: (changed or {}).get((table, column), value)
            for column, value in columns.items()
            if (table, column) not in without
        }
        if not left:
            continue
        connection.execute(f"CREATE TABLE {table} ({', '.join(left)})")
        marks = ", ".join("?" * len(left))
        for _ in range(copies):
            connection.execute(f"INSERT INTO {table} VALUES ({marks})", tuple(left.values()))
    connection.commit()
    connection.close()
    return path
