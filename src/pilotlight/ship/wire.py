"""The tables of a batch as data: what docs/collector.md says, for the agent and the collector."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from pilotlight.recording.schema import Column, Table

PROTOCOL = (1, 0)
"""A collector takes any batch with its own first number; unknown tables and columns are skipped."""

MEDIA_TYPE = "application/vnd.pilotlight.batch"
CLOCK_HEADER = "pilotlight-clock"
STEPS_HEADER = "pilotlight-steps"
"""With a part of a capture: the steps in the traces of each rank, as JSON."""
STEPS_LIMIT_BYTES = 32 << 10
MAGIC = b"PLB1"

BODY_LIMIT_BYTES = 16 << 20
"""Compressed."""
BATCH_LIMIT_BYTES = 128 << 20
"""Uncompressed."""
HEADER_LIMIT_BYTES = 8 << 20

PARTS = (
    "compute_ns",
    "communication_ns",
    "copy_ns",
    "loader_ns",
    "gc_ns",
    "sync_ns",
    "checkpoint_ns",
    "compile_ns",
    "host_ns",
)
"""Where a step's time went: no time is in two of them, what is left is not known. Communication is
what nothing hides; `wait_ns` is the part of it before the last rank came."""

WAIT_KNOWN = 1 << 15
"""In `known`, whose bit n says that the n-th of the parts was measured (0 may be a time)."""

RECKONED = 1 << 14
"""In `known`: some of the communication was not told but reckoned from other steps, and is no part
of the compute."""

PARTLY_RECKONED = "partly reckoned"
"""The job's fact `communication` where steps are so."""

NAME, STACK = 1, 2
"""names.kind; the text of a stack has a line a frame, the outermost first."""

LAUNCHED = 7
"""windows.kind beside those of a recording: device time by launch; the name is a stack that ends in
the innermost range, if there was one, and the kernel; the state is the kind of the activity."""


def _table(name: str, columns: str) -> Table:
    pairs = (column.split() for column in columns.split(","))
    return Table(name, tuple(Column(column, kind) for column, kind in pairs))


_PARTS = ", ".join(f"{part} i64" for part in PARTS)

# `place` is an index in the header's list of places: a process of a job.
TABLES: Mapping[str, Table] = MappingProxyType(
    {
        table.name: table
        for table in (
            _table(
                "steps",
                f"place u32, step i64, start_ns i64, duration_ns i64, {_PARTS}, wait_ns i64, "
                "known u16",
            ),
            _table(
                "windows",
                "place u32, time_ns i64, kind u8, state u8, name u64, count u64, total_ns i64, "
                "min_ns i64, max_ns i64",
            ),
            _table(
                "histograms", "place u32, time_ns i64, kind u8, name u64, bucket u16, count u64"
            ),
            _table(
                "collectives",
                "place u32, time_ns i64, operation utf8, group utf8, size u32, count u64, "
                "total_ns i64, wait_ns i64, bytes i64, max_ns i64",
            ),
            _table(
                "counters",
                "place u32, gpu i64, time_ns i64, name utf8, count u64, sum f64, min f64, "
                "max f64, last f64",
            ),
            _table("names", "id u64, kind u8, text utf8"),
        )
    }
)

OPTIONAL: Mapping[str, frozenset[str]] = MappingProxyType(
    {"steps": frozenset({*PARTS, "wait_ns", "known"}), "collectives": frozenset({"size"})}
)
"""Columns that an older agent does not send; they are 0 then."""


def gpu_number(device: str) -> int:
    """-1 for what is no GPU."""
    rest = device.removeprefix("gpu")
    return int(rest) if rest != device and rest.isdigit() and len(rest) < 6 else -1
