"""Spans as they are read: pieces of columns, with names and lanes interned and bounded."""

from __future__ import annotations

import math
from array import array
from collections import Counter as Tally
from typing import Any

import numpy as np

from pilotlight.trace.problem import Problem
from pilotlight.trace.trace import NONE, Counters, Kind, Lane, Spans

MAX_NAMES = 500_000
MAX_LANES = 1_000_000
OVERFLOW_NAME = "(more names than fit)"
_MOST = (1 << 63) - 1


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
    """Gathers the columns of one trace, for the readers that see one row at a time."""

    def __init__(self, source: str) -> None:
        self.source = source
        self.names = Interned(MAX_NAMES, OVERFLOW_NAME)
        self.lanes = Interned(MAX_LANES, ("", OVERFLOW_NAME))
        self.dropped: Tally[str] = Tally()
        self._columns = tuple(array(code) for code in "qqBIIqq")
        self._counter_times, self._counter_names = array("q"), array("I")
        self._counter_values = array("d")

    def __len__(self) -> int:
        return len(self._columns[0])

    def add(
        self,
        start_ns: int,
        duration_ns: int,
        kind: Kind,
        name: str,
        lane: tuple[str, str],
        correlation: int = NONE,
        size_bytes: int = NONE,
    ) -> None:
        """Times that make no sense are dropped and counted."""
        if start_ns < 0 or duration_ns < 0 or start_ns + duration_ns > _MOST:
            self.dropped["spans with a negative or impossible time"] += 1
            return
        row = (
            start_ns,
            duration_ns,
            kind,
            self.names[name],
            self.lanes[lane],
            correlation if 0 <= correlation <= _MOST else NONE,
            size_bytes if 0 <= size_bytes <= _MOST else NONE,
        )
        for column, value in zip(self._columns, row, strict=True):
            column.append(value)

    def add_counter(self, time_ns: int, name: str, value: float) -> None:
        if not 0 <= time_ns <= _MOST or not math.isfinite(value):
            self.dropped["counter values without a time or that are no numbers"] += 1
            return
        self._counter_times.append(time_ns)
        self._counter_names.append(self.names[name])
        self._counter_values.append(value)

    def spans(self) -> Spans:
        return Spans(*(np.array(column) for column in self._columns))

    def counters(self) -> Counters:
        return Counters(
            np.array(self._counter_times),
            np.array(self._counter_names),
            np.array(self._counter_values),
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
# The category of today for each kind.
CATEGORY_OF_KIND = {
    kind: text for text, kind in reversed(KIND_OF_CATEGORY.items()) if text.islower()
} | {Kind.OTHER: "other", Kind.RUNTIME: "cuda_runtime", Kind.GC: "python_gc"}
