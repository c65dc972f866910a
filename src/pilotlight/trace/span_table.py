"""Spans as they are read: pieces of columns, with names and lanes interned and bounded."""

from __future__ import annotations

from collections import Counter as Tally
from typing import Any

import numpy as np

from pilotlight.trace.problem import Problem
from pilotlight.trace.trace import Counters, Int64, Kind, Lane, Spans

MAX_NAMES = 2_000_000
MAX_LANES = 1_000_000
OVERFLOW_NAME = "(more names than fit)"


class Interned(dict[Any, int]):
    """Gives every new key the next number, and all keys beyond the limit the same one."""

    def __init__(self, limit: int, overflow: Any) -> None:
        super().__init__()
        self.limit = limit
        self.overflow = overflow
        self.overflowed = 0

    def __missing__(self, key: Any) -> int:
        if len(self) >= self.limit:
            self.overflowed += 1
            return self.setdefault(self.overflow, len(self))
        number = len(self)
        self[key] = number
        return number


class SpanTable:
    """Gathers the columns of one trace."""

    def __init__(self, source: str) -> None:
        self.source = source
        self.names = Interned(MAX_NAMES, OVERFLOW_NAME)
        self.lanes = Interned(MAX_LANES, ("", OVERFLOW_NAME))
        self.dropped: Tally[str] = Tally()
        self._pieces: list[tuple[np.ndarray[Any, Any], ...]] = []
        self._counter_pieces: list[tuple[float, int, float]] = []

    def add(self, *columns: np.ndarray[Any, Any]) -> None:
        """Columns in the order of `Spans`; times that make no sense are dropped and counted."""
        start_ns, duration_ns = columns[0], columns[1]
        wrong = (
            (duration_ns < 0) | (start_ns < 0) | (duration_ns > np.iinfo(np.int64).max - start_ns)
        )
        if wrong.any():
            self.dropped["spans with a negative or impossible time"] += int(wrong.sum())
            columns = tuple(column[~wrong] for column in columns)
        self._pieces.append(columns)

    def add_counter(self, time_us: float, name: str, value: float) -> None:
        self._counter_pieces.append((time_us, self.names[name], value))

    def spans(self) -> Spans:
        dtypes = (np.int64, np.int64, np.uint8, np.uint32, np.uint32, np.int64, np.int64)
        columns = []
        for i, dtype in enumerate(dtypes):
            parts = [piece[i] for piece in self._pieces]
            columns.append(np.concatenate(parts) if parts else np.empty(0, dtype))
        self._pieces = []
        return Spans(*columns)

    def counters(self) -> Counters:
        rows = self._counter_pieces
        return Counters(
            nanoseconds(np.array([row[0] for row in rows], np.float64)),
            np.array([row[1] for row in rows], np.uint32),
            np.array([row[2] for row in rows], np.float64),
        )

    def lane_table(self, lane_names: dict[tuple[str, str], str]) -> tuple[Lane, ...]:
        return tuple(Lane(p, t, lane_names.get((p, t), "")) for p, t in self.lanes)

    def problems(self) -> list[Problem]:
        found = [
            Problem(self.source, "", f"{count} {what} left out")
            for what, count in self.dropped.items()
        ]
        for table, what, limit in (
            (self.names, "names", MAX_NAMES),
            (self.lanes, "lanes", MAX_LANES),
        ):
            if table.overflowed:
                text = f"more than {limit} distinct {what}: {table.overflowed} spans share one"
                found.append(Problem(self.source, "", text))
        return found


def nanoseconds(microseconds: np.ndarray[Any, Any]) -> Int64:
    """Exact to the nanosecond where the product in float64 would not be; not finite gives -1."""
    usable = np.isfinite(microseconds) & (np.abs(microseconds) < 9e15)
    whole = np.floor(np.where(usable, microseconds, 0.0))
    fraction = np.where(usable, microseconds, 0.0) - whole
    exact = whole.astype(np.int64) * 1000 + np.rint(fraction * 1000).astype(np.int64)
    return np.where(usable, exact, -1)


KIND_OF_CATEGORY = {
    "cpu_op": Kind.OPERATOR,
    "Operator": Kind.OPERATOR,
    "user_annotation": Kind.ANNOTATION,
    "python_function": Kind.PYTHON,
    "cuda_runtime": Kind.RUNTIME,
    "cuda_driver": Kind.RUNTIME,
    "hip_runtime": Kind.RUNTIME,
    "Runtime": Kind.RUNTIME,
    "kernel": Kind.KERNEL,
    "Kernel": Kind.KERNEL,
    "gpu_memcpy": Kind.MEMCPY,
    "Memcpy": Kind.MEMCPY,
    "gpu_memset": Kind.MEMSET,
    "Memset": Kind.MEMSET,
    "cuda_sync": Kind.SYNC,
    "gpu_user_annotation": Kind.DEVICE_ANNOTATION,
    "python_gc": Kind.GC,
}
