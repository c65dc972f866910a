"""Spans as they are read: pieces of columns, with names and lanes interned and bounded."""

from __future__ import annotations

import math
from array import array
from collections import Counter as Tally
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pilotlight.trace.problem import Problem
from pilotlight.trace.trace import NONE, Counters, Kind, Lane, Spans

PIECE_ROWS = 1 << 16
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


class _Pieces:
    """Columns that grow a row at a time. What is complete are arrays, which may be in files."""

    def __init__(self, codes: str) -> None:
        self._codes = codes
        self._last = tuple(array(code) for code in codes)
        self._complete: list[tuple[NDArray[Any], ...]] = []

    def __len__(self) -> int:
        return PIECE_ROWS * len(self._complete) + len(self._last[0])

    def add(self, *row: Any) -> None:
        for column, value in zip(self._last, row, strict=True):
            column.append(value)
        if len(self._last[0]) == PIECE_ROWS:
            self._complete.append(tuple(map(np.array, self._last)))
            self._last = tuple(array(code) for code in self._codes)

    def columns(self) -> tuple[NDArray[Any], ...]:
        pieces = (*self._complete, tuple(map(np.array, self._last)))
        return tuple(np.concatenate(column) for column in zip(*pieces, strict=True))


class SpanTable:
    """Gathers the columns of one trace, for the readers that see one row at a time."""

    def __init__(self, source: str) -> None:
        self.source = source
        self.names = Interned(MAX_NAMES, OVERFLOW_NAME)
        self.lanes = Interned(MAX_LANES, ("", OVERFLOW_NAME))
        self.dropped: Tally[str] = Tally()
        self._spans, self._counters = _Pieces("qqBIIqq"), _Pieces("qId")

    def __len__(self) -> int:
        return len(self._spans)

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
        self._spans.add(
            start_ns,
            duration_ns,
            kind,
            self.names[name],
            self.lanes[lane],
            correlation if 0 <= correlation <= _MOST else NONE,
            size_bytes if 0 <= size_bytes <= _MOST else NONE,
        )

    def add_counter(self, time_ns: int, name: str, value: float) -> None:
        if not 0 <= time_ns <= _MOST or not math.isfinite(value):
            self.dropped["counter values without a time or that are no numbers"] += 1
            return
        self._counters.add(time_ns, self.names[name], value)

    def spans(self) -> Spans:
        return Spans(*self._spans.columns())

    def counters(self) -> Counters:
        return Counters(*self._counters.columns())

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
    "mtia_runtime": Kind.RUNTIME,
    "xpu_runtime": Kind.RUNTIME,
    "xpu_driver": Kind.RUNTIME,
    "privateuse1_runtime": Kind.RUNTIME,
    "privateuse1_driver": Kind.RUNTIME,
    "kernel": Kind.KERNEL,
    "Kernel": Kind.KERNEL,
    "mtia_ccp_events": Kind.KERNEL,
    "gpu_memcpy": Kind.MEMCPY,
    "Memcpy": Kind.MEMCPY,
    "gpu_memset": Kind.MEMSET,
    "Memset": Kind.MEMSET,
    "cuda_sync": Kind.SYNC,
    "gpu_user_annotation": Kind.DEVICE_ANNOTATION,
    "python_gc": Kind.GC,
}
# The category of today for each kind: the first that is.
CATEGORY_OF_KIND = {
    kind: text for text, kind in reversed(KIND_OF_CATEGORY.items()) if text.islower()
} | {Kind.OTHER: "other", Kind.RUNTIME: "cuda_runtime", Kind.GC: "python_gc"}
