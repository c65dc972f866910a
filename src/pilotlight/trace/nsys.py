"""Reads the SQLite export of Nsight Systems: a trace for each process that used a GPU."""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

from pilotlight.errors import FormatError
from pilotlight.trace.span_table import SpanTable
from pilotlight.trace.step import steps_of
from pilotlight.trace.trace import NONE, Kind, Trace, no_counters

SQLITE_MAGIC = b"SQLite format 3\0"
ROWS_AT_ONCE = 100_000

# The low 24 bits of a global thread id are the thread, the 24 above them the process.
_PROCESS_MASK = ~0xFFFFFF

_COPY_KINDS = {1: "HtoD", 2: "DtoH", 8: "DtoD", 9: "HtoH", 10: "PtoP"}
_MEMORY_KINDS = {0: "Pageable", 1: "Pinned", 2: "Device", 3: "Array", 4: "Managed"}
_SYNC_KINDS = {1: "Event Sync", 2: "Stream Wait Event", 3: "Stream Sync", 4: "Context Sync"}
_OPERATOR_NOISE = re.compile(r", (?:op_id|seq|seq_ids|sizes|input_op_ids) = .*$", re.DOTALL)
_OPERATOR = re.compile(r"^(?:aten|prims|torch|autograd|c10d|nccl)::|Backward\d*$")

_KERNEL = "CUPTI_ACTIVITY_KIND_KERNEL"
_GRAPH = "CUPTI_ACTIVITY_KIND_GRAPH_TRACE"
_MEMCPY = "CUPTI_ACTIVITY_KIND_MEMCPY"
_MEMSET = "CUPTI_ACTIVITY_KIND_MEMSET"
_SYNC = "CUPTI_ACTIVITY_KIND_SYNCHRONIZATION"
_RUNTIME = "CUPTI_ACTIVITY_KIND_RUNTIME"
_NVTX = "NVTX_EVENTS"
_NVTX_RANGES = (59, 60)


def read_nsys(path: Path) -> tuple[Trace, ...]:
    """Opens the file read-only and immutable; raises FormatError if it is no such export."""
    try:
        uri = path.resolve().as_uri() + "?mode=ro&immutable=1"
        with closing(sqlite3.connect(uri, uri=True)) as connection:
            connection.execute("PRAGMA trusted_schema = OFF")
            connection.text_factory = lambda text: text.decode("utf-8", "replace")
            return _Export(connection, str(path)).traces()
    except sqlite3.Error as error:
        raise FormatError(f"{path}: damaged SQLite file ({error})") from None


class _Export:
    def __init__(self, connection: sqlite3.Connection, source: str) -> None:
        self.connection = connection
        self.source = source
        self.columns = self._columns()
        if not any(table in self.columns for table in (_KERNEL, _GRAPH, _MEMCPY, _RUNTIME, _NVTX)):
            raise FormatError(f"{source}: an SQLite file of another tool: no CUPTI or NVTX table")
        self.strings = {
            key: str(value) for key, value in self._rows("StringIds", ("id", "value")) if value
        }

    def _columns(self) -> dict[str, set[str]]:
        tables = self.connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")
        wanted = {_KERNEL, _GRAPH, _MEMCPY, _MEMSET, _SYNC, _RUNTIME, _NVTX, "StringIds"}
        wanted |= {"TARGET_INFO_GPU"}
        return {
            name: {row[1] for row in self.connection.execute(f'PRAGMA table_info("{name}")')}
            for (name,) in tables.fetchall()
            if name in wanted
        }

    def _rows(self, table: str, columns: tuple[str, ...]) -> Iterator[tuple[Any, ...]]:
        """Columns that this version of the schema lacks come as NULL."""
        present = self.columns.get(table)
        if present is None:
            return
        chosen = ", ".join(f'"{c}"' if c in present else "NULL" for c in columns)
        cursor = self.connection.execute(f'SELECT {chosen} FROM "{table}"')
        while rows := cursor.fetchmany(ROWS_AT_ONCE):
            yield from rows

    def traces(self) -> tuple[Trace, ...]:
        builds: dict[int, _Process] = {}

        def process(global_id: Any) -> _Process:
            key = int(global_id) & _PROCESS_MASK if isinstance(global_id, int) else 0
            if key not in builds:
                builds[key] = _Process(self.source, key)
            return builds[key]

        self._device_spans(process)
        used_gpu = {key for key, build in builds.items() if build.devices}
        self._host_spans(process)
        chosen = used_gpu or set(builds)
        if not chosen:
            raise FormatError(f"{self.source}: an Nsight Systems export without any event")
        order = sorted(chosen, key=lambda key: (min(builds[key].devices, default=0), key))
        gpus = tuple(str(row[0]) for row in self._rows("TARGET_INFO_GPU", ("name",)))
        return tuple(builds[key].finish(gpus) for key in order)

    def _device_spans(self, process: Any) -> None:
        shape = ("start", "end", "globalPid", "deviceId", "streamId", "correlationId")
        for row in self._rows(_KERNEL, (*shape, "demangledName", "shortName")):
            name = self.strings.get(row[6]) or self.strings.get(row[7]) or "(unnamed kernel)"
            process(row[2]).add_device(row[:6], Kind.KERNEL, name, None)
        for row in self._rows(_GRAPH, (*shape, "graphId")):
            process(row[2]).add_device(row[:6], Kind.KERNEL, "(graph)", None)
        for row in self._rows(_MEMCPY, (*shape, "copyKind", "srcKind", "dstKind", "bytes")):
            source, target = (_MEMORY_KINDS.get(kind, "Unknown") for kind in row[7:9])
            direction = _COPY_KINDS.get(row[6], "Unknown")
            name = f"Memcpy {direction} ({source} -> {target})"
            process(row[2]).add_device(row[:6], Kind.MEMCPY, name, row[9])
        for row in self._rows(_MEMSET, (*shape, "bytes")):
            process(row[2]).add_device(row[:6], Kind.MEMSET, "Memset (Device)", row[6])
        for row in self._rows(_SYNC, (*shape, "syncType")):
            name = _SYNC_KINDS.get(row[6], "Sync")
            process(row[2]).add_device(row[:6], Kind.SYNC, name, None)

    def _host_spans(self, process: Any) -> None:
        for row in self._rows(_RUNTIME, ("start", "end", "globalTid", "correlationId", "nameId")):
            name = re.sub(r"_v\d+$", "", self.strings.get(row[4], "(unnamed call)"))
            process(row[2]).add_host(row[:4], Kind.RUNTIME, name)
        for row in self._rows(_NVTX, ("start", "end", "globalTid", "eventType", "text", "textId")):
            if row[3] not in _NVTX_RANGES:
                continue
            text = row[4] or self.strings.get(row[5]) or "(unnamed range)"
            name = _OPERATOR_NOISE.sub("", str(text))
            kind = Kind.OPERATOR if _OPERATOR.search(name) else Kind.ANNOTATION
            process(row[2]).add_host((row[0], row[1], row[2], None), kind, name)


class _Process:
    """The spans of one process."""

    def __init__(self, source: str, key: int) -> None:
        self.table = SpanTable(source)
        self.pid = (key >> 24) & 0xFFFFFF
        self.devices: set[int] = set()

    def add_device(self, row: tuple[Any, ...], kind: Kind, name: str, size: Any) -> None:
        start, end, _, device, stream, correlation = row
        if isinstance(device, int) and kind != Kind.SYNC:
            self.devices.add(device)
        self._add(
            start, end, kind, name, (f"device {device}", f"stream {stream}"), correlation, size
        )

    def add_host(self, row: tuple[Any, ...], kind: Kind, name: str) -> None:
        start, end, thread, correlation = row
        tid = thread & 0xFFFFFF if isinstance(thread, int) else 0
        self._add(start, end, kind, name, (str(self.pid), str(tid)), correlation, None)

    def _add(
        self,
        start: Any,
        end: Any,
        kind: Kind,
        name: str,
        lane: tuple[str, str],
        correlation: Any,
        size: Any,
    ) -> None:
        if not isinstance(start, int) or not isinstance(end, int):
            self.table.dropped["spans without a start or an end"] += 1
            return
        self.table.add(
            start,
            end - start,
            kind,
            name,
            lane,
            correlation if isinstance(correlation, int) and correlation else NONE,
            size if isinstance(size, int) else NONE,
        )

    def finish(self, gpus: tuple[str, ...]) -> Trace:
        spans = self.table.spans()
        names = tuple(self.table.names)
        return Trace(
            source=self.table.source,
            format="nsys",
            rank=NONE,
            world_size=None,
            devices=tuple(gpus[d] for d in sorted(self.devices) if 0 <= d < len(gpus)),
            names=names,
            lanes=self.table.lane_table({}),
            spans=spans,
            counters=no_counters(),
            steps=steps_of(names, spans),
            problems=tuple(self.table.problems()),
        )
