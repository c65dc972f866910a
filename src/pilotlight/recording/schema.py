"""The tables of a recording as data: what docs/recording.md says, for the writer and the reader."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import IntEnum, IntFlag
from types import MappingProxyType

FORMAT = "pilotlight-recording"
VERSION = (1, 1)
WINDOW_NS = 10_000_000_000
# Names of events of a device: it does not answer any more; it does again.
LOST, BACK = "lost", "back"

UTF8 = "utf8"
WIDTH_BYTES: Mapping[str, int] = MappingProxyType(
    {"u8": 1, "u16": 2, "u32": 4, "u64": 8, "i64": 8, "f64": 8}
)


@dataclass(frozen=True)
class Column:
    """`kind` is a key of WIDTH_BYTES or UTF8."""

    name: str
    kind: str


@dataclass(frozen=True)
class Table:
    name: str
    columns: tuple[Column, ...]

    @property
    def file(self) -> str:
        return f"{self.name}.arrows"


def _table(name: str, columns: str) -> Table:
    pairs = (column.split() for column in columns.split(","))
    return Table(name, tuple(Column(column, kind) for column, kind in pairs))


TABLES: Mapping[str, Table] = MappingProxyType(
    {
        table.name: table
        for table in (
            _table(
                "spans",
                "process u32, thread u32, name u32, kind u8, flags u8, start_ns i64, "
                "duration_ns i64",
            ),
            _table(
                "samples",
                "process u32, thread u32, stack u32, state u8, flags u8, time_ns i64, "
                "weight_ns i64",
            ),
            _table("counters", "process u32, thread u32, name u32, time_ns i64, value f64"),
            _table("marks", "process u32, thread u32, name u32, kind u8, time_ns i64, value i64"),
            _table(
                "gaps", "process u32, ring u32, reason u8, first_ns i64, last_ns i64, count u64"
            ),
            _table("steps", "process u32, thread u32, step i64, start_ns i64, duration_ns i64"),
            _table(
                "sampler",
                "process u32, time_ns i64, passes u32, taken u32, torn u32, skipped u32, "
                "cpu_ns i64, period_ns i64",
            ),
            _table("threads", "process u32, thread u32, name u32"),
            _table("names", "process u32, id u32, text utf8"),
            _table(
                "frames",
                "process u32, id u32, function utf8, file utf8, line u32, first_line u32",
            ),
            _table("stacks", "process u32, id u32, parent u32, frame u32"),
            _table("tracks", "process u32, id u32, name u32, kind u16, device u16, stream u64"),
            _table(
                "activities",
                "process u32, thread u32, name u32, track u32, kind u8, flags u8, start_ns i64, "
                "duration_ns i64, correlation u64, bytes i64, stack u32, range u32, detail u64",
            ),
            _table(
                "launches",
                "process u32, thread u32, name u32, kind u8, flags u8, start_ns i64, "
                "duration_ns i64, correlation u64, stack u32",
            ),
            _table(
                "collectives",
                "process u32, thread u32, name u32, group u32, dtype u32, rank u32, "
                "world_size u32, flags u8, start_ns i64, duration_ns i64, wait_ns i64, "
                "bytes i64, sequence u64, correlation u64",
            ),
            _table(
                "windows",
                "process u32, start_ns i64, kind u8, state u8, id u32, count u64, total_ns i64, "
                "min_ns i64, max_ns i64",
            ),
            _table(
                "histograms",
                "process u32, start_ns i64, kind u8, id u32, bucket u16, count u64",
            ),
            _table("device_counters", "id u64, device utf8, name utf8, unit utf8"),
            _table("device_values", "counter u64, time_ns i64, value f64"),
            _table("device_events", "time_ns i64, device utf8, name utf8, value i64, text utf8"),
            _table(
                "device_windows",
                "counter u64, start_ns i64, count u64, mean f64, min f64, max f64",
            ),
        )
    }
)


class SpanKind(IntEnum):
    RANGE = 1
    GC = 2
    PHASE = 3
    MODULE = 4
    OPERATOR = 5
    NVTX = 6
    LOADER = 7
    COMPILE = 8
    CHECKPOINT = 9
    SYNC = 10


class ActivityKind(IntEnum):
    """What ran on a track; 0 is a kind that this version does not know."""

    KERNEL = 1
    MEMCPY = 2
    MEMSET = 3
    SYNCHRONIZATION = 4
    GRAPH = 5
    OVERHEAD = 6
    ALLOCATION = 7
    FREE = 8
    PC_SAMPLES = 9  # no work: docs/gpu.md
    KERNEL_METRIC = 10  # the same
    EXTERNAL_ID = 11  # the same


# What is known of work, but is no work of a device itself.
NO_WORK = (ActivityKind.PC_SAMPLES, ActivityKind.KERNEL_METRIC, ActivityKind.EXTERNAL_ID)


class TrackKind(IntEnum):
    STREAM = 1
    ENGINE = 2
    GROUP = 3


class CollectiveFlag(IntFlag):
    """With the first alone a collective was enqueued, and how long it took is not known."""

    ASYNCHRONOUS = 1
    WAIT_KNOWN = 2


class SpanFlag(IntFlag):
    NEVER_CLOSED = 1
    BEGIN_LOST = 2


class State(IntEnum):
    """What a thread was doing when it was sampled."""

    UNKNOWN = 0
    RUNNING = 1
    WAITING = 2
    GIL_WAIT = 3
    DISK = 4


class MarkKind(IntEnum):
    MARK = 1
    STARTED = 2
    EXIT = 3
    FORKED = 4
    OFF = 5
    PAUSED = 6
    RESUMED = 7
    DIED = 8
    EVENT = 9


class GapReason(IntEnum):
    RING_FULL = 1
    NO_RING = 2
    NESTED = 3
    QUARANTINED = 4
    DEFINITIONS_LOST = 5
    OVER_BUDGET = 6


class WindowKind(IntEnum):
    RANGE = 1
    SAMPLE = 2
    GC = 3
    STEP = 4
    ACTIVITY = 5
    COLLECTIVE = 6
