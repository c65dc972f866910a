"""Reads operation rows: one row for each forward, backward, transfer or optimizer of each rank.

A parquet file with the columns dp_rank, stage, rank, step, optype, start_ts and duration (seconds)
and seq_id, as the StragglerAnalysis project publishes them.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from pilotlight.errors import FormatError, UsageError
from pilotlight.trace.trace import Int64

MAX_ROWS = 100_000_000
_COLUMNS = ("dp_rank", "stage", "rank", "step", "seq_id", "start_ts", "duration", "optype")


@dataclass(frozen=True)
class OperationRows:
    """One row an operation; `kind` is a number in `kinds`."""

    source: str
    data_rank: Int64
    stage: Int64
    rank: Int64
    step: Int64
    sequence: Int64
    start_ns: Int64
    duration_ns: Int64
    kind: Int64
    kinds: tuple[str, ...]

    def __len__(self) -> int:
        return len(self.rank)


def has_operation_rows(path: Path) -> bool:
    """Whether a Parquet file is a table of operations and not one of spans."""
    if path.suffix != ".parquet":
        return False
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError:
        return True
    try:
        return "start_ns" not in pyarrow.parquet.read_schema(path).names
    except (pyarrow.ArrowException, OSError):
        return True


def read_operation_rows(path: Path) -> OperationRows:
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError:
        raise UsageError(f"{path}: reading parquet needs pyarrow: pip install pyarrow") from None
    try:
        file = pyarrow.parquet.ParquetFile(path)
        missing = [name for name in _COLUMNS if name not in file.schema_arrow.names]
        if missing:
            raise FormatError(f"{path}: no column {missing[0]}: not a table of operations")
        if file.metadata.num_rows > MAX_ROWS:
            raise FormatError(f"{path}: more than {MAX_ROWS} rows: refused")
        table = file.read(columns=list(_COLUMNS))
    except pyarrow.ArrowException as error:
        text = " ".join(str(error).split())[:120]
        raise FormatError(f"{path}: damaged parquet file ({text})") from None
    columns = {name: table[name].to_numpy(zero_copy_only=False) for name in _COLUMNS}
    kinds, kind = np.unique(columns["optype"].astype(str), return_inverse=True)
    start_ns, duration_ns = (_nanoseconds(columns[name]) for name in ("start_ts", "duration"))
    if not len(kind) or (duration_ns < 0).any():
        wrong = int(np.argmax(duration_ns < 0)) if len(kind) else 0
        raise FormatError(f"{path}: row {wrong}: no rows, or a time that is no number of seconds")
    whole = {name: columns[name].astype(np.int64) for name in _COLUMNS[:5]}
    return OperationRows(
        str(path),
        whole["dp_rank"],
        whole["stage"],
        whole["rank"],
        whole["step"],
        whole["seq_id"],
        start_ns,
        duration_ns,
        kind.astype(np.int64),
        tuple(str(text) for text in kinds),
    )


def _nanoseconds(seconds: Any) -> Int64:
    values = np.asarray(seconds, np.float64)
    usable = np.isfinite(values) & (np.abs(values) < 9e9)
    return np.where(usable, np.rint(np.where(usable, values, 0) * 1e9), -1).astype(np.int64)
