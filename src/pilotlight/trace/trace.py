"""The trace model: columns, one trace a rank."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pilotlight.trace.detail import Detail
from pilotlight.trace.problem import Problem

Int64 = NDArray[np.int64]
UInt32 = NDArray[np.uint32]
UInt8 = NDArray[np.uint8]
Float64 = NDArray[np.float64]
Bool = NDArray[np.bool_]

NONE = -1  # in the columns `correlation` and `bytes`: the trace does not say


class Kind(IntEnum):
    """What a span is; the values from KERNEL to MEMSET occupy the device."""

    OTHER = 0
    OPERATOR = 1
    ANNOTATION = 2
    PYTHON = 3
    RUNTIME = 4
    KERNEL = 5
    MEMCPY = 6
    MEMSET = 7
    SYNC = 8
    DEVICE_ANNOTATION = 9
    GC = 10


@dataclass(frozen=True)
class Lane:
    """A thread of a process, or a stream of a device."""

    process: str
    thread: str
    name: str = ""


@dataclass(frozen=True)
class Spans:
    """All columns have one row a span, in the order of the file."""

    start_ns: Int64
    duration_ns: Int64
    kind: UInt8
    name: UInt32
    lane: UInt32
    correlation: Int64
    bytes: Int64

    def __len__(self) -> int:
        return len(self.start_ns)

    @property
    def end_ns(self) -> Int64:
        return self.start_ns + self.duration_ns

    def is_kind(self, *kinds: Kind) -> Bool:
        """One truth value a span."""
        wanted = np.zeros(256, np.bool_)
        wanted[list(kinds)] = True
        return wanted[self.kind]

    def take(self, rows: NDArray[np.generic]) -> Spans:
        """The spans at these row numbers, or where this mask is true."""
        return Spans(
            self.start_ns[rows],
            self.duration_ns[rows],
            self.kind[rows],
            self.name[rows],
            self.lane[rows],
            self.correlation[rows],
            self.bytes[rows],
        )


@dataclass(frozen=True)
class Counters:
    time_ns: Int64
    name: UInt32
    value: Float64


@dataclass(frozen=True)
class Flows:
    """Arrows from one place to another, such as from a forward operator to its backward."""

    name: UInt32
    start_ns: Int64
    start_lane: UInt32
    end_ns: Int64
    end_lane: UInt32

    def __len__(self) -> int:
        return len(self.name)


@dataclass(frozen=True)
class Argument:
    """What some spans say of themselves under one name: `rows` are theirs, in order."""

    rows: UInt32
    values: NDArray[Any]  # int64 or float64
    texts: tuple[str, ...] = ()  # if there are any, `values` are numbers of these

    def dense(self, count: int) -> NDArray[Any]:
        """A value for each of `count` spans: NONE, or NaN among real numbers, where none is."""
        missing = NONE if self.values.dtype == np.int64 else np.nan
        column: NDArray[Any] = np.full(count, missing, self.values.dtype)
        column[self.rows] = self.values
        return column


@dataclass(frozen=True)
class Steps:
    """Steps in the order of time; `number` is what the job calls them."""

    number: Int64
    start_ns: Int64
    duration_ns: Int64

    def __len__(self) -> int:
        return len(self.number)


@dataclass(frozen=True)
class Trace:
    """What one rank did."""

    source: str
    format: str
    rank: int
    world_size: int | None
    devices: tuple[str, ...]
    names: tuple[str, ...]
    lanes: tuple[Lane, ...]
    spans: Spans
    counters: Counters
    steps: Steps
    problems: tuple[Problem, ...] = ()
    skipped: dict[str, int] = field(default_factory=dict)
    detail: Detail = field(default_factory=Detail)
    flows: Flows = field(default_factory=lambda: no_flows())
    arguments: dict[str, Argument] = field(default_factory=dict)
    processes: dict[str, str] = field(default_factory=dict)  # their names, by Lane.process
    memory_bytes: int = 0  # of a device; 0 where the trace does not tell

    def of_kind(self, *kinds: Kind) -> Spans:
        return self.spans.take(np.flatnonzero(self.spans.is_kind(*kinds)))

    def name_mask(self, wanted: Sequence[bool] | Bool) -> Bool:
        """One truth value a name to one truth value a span."""
        mask: Bool = np.asarray(wanted, dtype=np.bool_)[self.spans.name]
        return mask


@dataclass(frozen=True)
class TraceSet:
    """The ranks of one job, by rank, and everything that was wrong with the input."""

    traces: tuple[Trace, ...]
    problems: tuple[Problem, ...] = ()


def no_counters() -> Counters:
    return Counters(np.empty(0, np.int64), np.empty(0, np.uint32), np.empty(0, np.float64))


def no_steps() -> Steps:
    return Steps(np.empty(0, np.int64), np.empty(0, np.int64), np.empty(0, np.int64))


def no_flows() -> Flows:
    number, time = np.empty(0, np.uint32), np.empty(0, np.int64)
    return Flows(number, time, number, time, number)
