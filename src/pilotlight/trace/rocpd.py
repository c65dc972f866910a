"""Reads SQLite files of ROCm: rocpd of rocprofv3 (schemas 3 and 4), and RPD of rocmProfileData."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Iterator
from typing import Any

from pilotlight.errors import FormatError
from pilotlight.trace.process_table import ProcessTable, in_order
from pilotlight.trace.sqlite import Database, quoted
from pilotlight.trace.trace import Kind, Trace

_DISPATCH, _COPY, _REGION = "rocpd_kernel_dispatch", "rocpd_memory_copy", "rocpd_region"
_OPERATION, _CALL = "rocpd_op", "rocpd_api"
_SUFFIX = re.compile(rf"(?:{_DISPATCH}|{_REGION})(_[0-9a-zA-Z_-]+)?")
_DIRECTION = re.compile(r"(HOST|DEVICE)_?TO_?(HOST|DEVICE)", re.IGNORECASE)
_RUNTIME = re.compile(r"^(?:hip|hsa|roc)[A-Z_]|^__hip")
_USER_MARKER = "UserMarker"
_AXES = ("x", "y", "z")
# What RPD's monitor calls otherwise than docs/counters.md.
_MONITORS = {"sclk": "sm_clock", "temp": "temperature"}

Process = Callable[[Any], ProcessTable]


def is_rocpd(database: Database) -> bool:
    return _OPERATION in database.tables or bool(_suffixes(database))


def read_rocpd(database: Database, source: str) -> tuple[Trace, ...]:
    """A trace for each process that used a GPU."""
    tables: dict[Any, ProcessTable] = {}
    gpus: dict[int, str] = {}

    def process(pid: Any) -> ProcessTable:
        if pid not in tables:
            tables[pid] = ProcessTable(source, pid if isinstance(pid, int) else 0)
        return tables[pid]

    if _OPERATION in database.tables:
        _read_rpd(database, process)
    for suffix in _suffixes(database):
        _Session(database, suffix).read(process, gpus)
    found = in_order(tables)
    if not found:
        raise FormatError(f"{source}: a ROCm profile without any event")
    return tuple(trace for table in found for trace in table.finish("rocpd", gpus))


def _suffixes(database: Database) -> list[str]:
    """Each recorded process has its own set of tables, told apart by the ends of their names."""
    found = {m[1] or "" for table in database.tables if (m := _SUFFIX.fullmatch(table))}
    return sorted(found)


class _Session:
    """The tables of one recorded process: ids are valid within them only."""

    def __init__(self, database: Database, suffix: str) -> None:
        self.database = database
        self.suffix = suffix
        self.strings = self._texts("rocpd_string", "string")
        self.pids = dict(self._rows("rocpd_info_process", ("id", "pid")))
        self.threads = dict(self._rows("rocpd_info_thread", ("id", "tid")))

    def _rows(self, table: str, columns: tuple[str, ...]) -> Iterator[tuple[Any, ...]]:
        return self.database.rows(table + self.suffix, columns)

    def _texts(self, table: str, column: str) -> dict[Any, str]:
        return {key: str(text) for key, text in self._rows(table, ("id", column)) if text}

    def read(self, process: Process, gpus: dict[int, str]) -> None:
        agents: dict[Any, int] = {}
        columns = ("id", "type", "type_index", "product_name", "name")
        for key, kind, index, product, name in self._rows("rocpd_info_agent", columns):
            if kind == "GPU" and isinstance(index, int):
                agents[key] = index
                gpus.setdefault(index, str(product or name or ""))
        kernels = self._texts("rocpd_info_kernel_symbol", "kernel_name")
        kernels |= self._texts("rocpd_info_kernel_symbol", "display_name")
        sizes = [f"{part}_size_{axis}" for part in ("grid", "workgroup") for axis in _AXES]
        for start, end, pid, agent, stream, correlation, key, *size in self._timed(
            _DISPATCH, ("pid", "agent_id", "stream_id"), ("kernel_id", *sizes)
        ):
            place = agents.get(agent, agent), stream
            name = kernels.get(key, "(unnamed kernel)")
            table = self._process(process, pid)
            table.add_device((start, end), place, Kind.KERNEL, name, correlation)
            table.add_grid(correlation, start, _blocks(size[:3], size[3:]), size[3:])
        for start, end, pid, stream, correlation, name, size, source, target in self._timed(
            _COPY,
            ("pid", "stream_id"),
            ("name_id", "size", "src_agent_id", "dst_agent_id"),
        ):
            device = agents.get(target, agents.get(source, 0))
            title = _copy_name(self.strings.get(name, ""))
            self._process(process, pid).add_device(
                (start, end), (device, stream), Kind.MEMCPY, title, correlation, size
            )
        for start, end, pid, thread, correlation, name, said in self._timed(
            _REGION, ("pid", "tid"), ("name_id",), ("extdata",)
        ):
            title = self.strings.get(name, "(unnamed region)")
            if title.startswith("roctx"):
                title = _message(said) or title
            kind = Kind.RUNTIME if _RUNTIME.search(title) else Kind.ANNOTATION
            self._process(process, pid).add_host(
                (start, end), self.threads.get(thread, thread), kind, title, correlation
            )

    def _process(self, process: Process, pid: Any) -> ProcessTable:
        return process(self.pids.get(pid, pid))

    def _timed(
        self,
        table: str,
        placed: tuple[str, ...],
        own: tuple[str, ...],
        of_event: tuple[str, ...] = (),
    ) -> Iterator[tuple[Any, ...]]:
        """start, end, `placed`, the correlation, then `own` and `of_event`. Schema 4 keeps times
        and places in tables of their own."""
        name = table + self.suffix
        if name not in self.database.tables:
            return
        present = self.database.columns(name)
        times, tracks, events = (
            quoted(f"rocpd_{part}{self.suffix}") for part in ("timestamp", "track", "event")
        )
        joins = ""
        chosen = ['r."start"', 'r."end"']
        if "start_id" in present:
            chosen = ['s."value"', 'e."value"']
            joins += f" LEFT JOIN {times} s ON s.id = r.start_id"
            joins += f" LEFT JOIN {times} e ON e.id = r.end_id"
        by_track = "track_id" in present and "pid" not in present
        if by_track:
            joins += f" LEFT JOIN {tracks} t ON t.id = r.track_id"
        where = self.database.columns(f"rocpd_track{self.suffix}") if by_track else present
        letter = "t" if by_track else "r"
        chosen += [f"{letter}.{quoted(c)}" if c in where else "NULL" for c in placed]
        told = frozenset[str]()
        if f"rocpd_event{self.suffix}" in self.database.tables and "event_id" in present:
            told = self.database.columns(f"rocpd_event{self.suffix}")
            joins += f" LEFT JOIN {events} v ON v.id = r.event_id"
        chosen.append("v.stack_id" if "stack_id" in told else "NULL")
        chosen += [f"r.{quoted(c)}" if c in present else "NULL" for c in own]
        chosen += [f"v.{quoted(c)}" if c in told else "NULL" for c in of_event]
        statement = f"SELECT {', '.join(chosen)} FROM {quoted(name)} r{joins}"
        yield from self.database.select(statement)


def _message(said: Any) -> str:
    """The text of a roctx range, which is not its region's name."""
    try:
        found = json.loads(said) if isinstance(said, (str, bytes)) else None
    except (ValueError, RecursionError):
        return ""
    text = found.get("message") if isinstance(found, dict) else None
    return text if isinstance(text, str) else ""


def _blocks(items: list[Any], threads: list[Any]) -> list[Any]:
    """ROCm counts the work items of a grid; a last block may be partly used."""
    return [
        -(-size // each) if type(size) is int and type(each) is int and each > 0 else None
        for size, each in zip(items, threads, strict=True)
    ]


def _read_rpd(database: Database, process: Process) -> None:
    strings = dict(database.rows("rocpd_string", ("id", "string")))
    # Since schema 3 texts that do not repeat have a table of their own.
    said = strings
    if "rocpd_ustring" in database.tables:
        said = dict(database.rows("rocpd_ustring", ("id", "string")))
    api_of = {op: api for api, op in database.rows("rocpd_api_ops", ("api_id", "op_id"))}
    sizes = dict(database.rows("rocpd_copyapi", ("api_ptr_id", "size")))
    old_sizes = dict(database.rows("rocpd_copyop", ("op_ptr_id", "size")))
    pid_of: dict[Any, Any] = {}
    launches = set(api_of.values())
    columns = ("id", "pid", "tid", "start", "end", "apiName_id", "args_id")
    for key, pid, thread, start, end, name, args in database.rows(_CALL, columns):
        title = str(strings.get(name, "(unnamed call)"))
        marker = title == _USER_MARKER
        kind = Kind.ANNOTATION if marker else Kind.RUNTIME
        title = str(said.get(args) or title) if marker else title
        process(pid).add_host((start, end), thread, kind, title, key)
        if key in launches:
            pid_of[key] = pid
    first = next(iter(pid_of.values()), 0)
    devices: dict[Any, ProcessTable] = {}
    columns = ("id", "gpuId", "queueId", "start", "end", "description_id", "opType_id")
    for key, gpu, queue, start, end, description, kind_id in database.rows(_OPERATION, columns):
        operation = str(strings.get(kind_id, ""))
        api = api_of.get(key)
        kind, title = _operation(operation, str(strings.get(description) or ""))
        table = process(pid_of.get(api, first))
        size = sizes.get(api, old_sizes.get(key))
        table.add_device((start, end), (gpu, queue), kind, title, api, size)
        devices.setdefault(gpu, table)
    _read_monitors(database, devices)


def _read_monitors(database: Database, devices: dict[Any, ProcessTable]) -> None:
    """Clock, power and temperature of each GPU, to the first process that used it."""
    columns = ("deviceType", "deviceId", "monitorType", "start", "end", "value")
    for kind, device, name, start, end, text in database.rows("rocpd_monitor", columns):
        if kind != "gpu" or device not in devices or not isinstance(name, str):
            continue
        try:
            value = float(text)
        except (TypeError, ValueError):
            value = math.nan
        title = f"gpu{device} {_MONITORS.get(name, name)}"
        for time in {start, end}:
            if isinstance(time, int):
                devices[device].table.add_counter(time, title, value)


def _operation(operation: str, description: str) -> tuple[Kind, str]:
    if "Copy" in operation:
        return Kind.MEMCPY, _copy_name(operation)
    if "Fill" in operation:
        return Kind.MEMSET, "Memset (Device)"
    if operation in ("Barrier", "Marker"):
        return Kind.SYNC, operation
    return Kind.KERNEL, description or operation or "(unnamed kernel)"


def _copy_name(text: str) -> str:
    """As other tools say it: which way the bytes went."""
    match = _DIRECTION.search(text)
    if match is None:
        return f"Memcpy {text}".strip()
    source, target = (side.capitalize() for side in match.groups())
    return f"Memcpy {source[0]}to{target[0]} ({source} -> {target})"
