"""Reads the SQLite export of Nsight Systems: a trace for each GPU of each process."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from pilotlight.errors import FormatError
from pilotlight.trace.problem import Problem
from pilotlight.trace.process_table import ProcessTable, in_order
from pilotlight.trace.sqlite import Database
from pilotlight.trace.trace import Kind, Trace

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
_NO_KERNEL, _NO_CALL = "(unnamed kernel)", "(unnamed call)"
_SIDES = tuple(f"{what}{axis}" for what in ("grid", "block") for axis in "XYZ")
_TABLES = (_KERNEL, _GRAPH, _MEMCPY, _RUNTIME, _NVTX)
# What every export has, of a program without a GPU too.
_ALWAYS = frozenset({"StringIds", "TARGET_INFO_SESSION_START_TIME"})

MAX_GPUS = 1024  # of a machine
MAX_CONTEXTS = 65_536

Process = Callable[[Any], ProcessTable]


def is_nsys(database: Database) -> bool:
    return database.tables >= _ALWAYS or any(table in database.tables for table in _TABLES)


def read_nsys(database: Database, source: str) -> tuple[Trace, ...]:
    strings = {
        key: str(value) for key, value in database.rows("StringIds", ("id", "value")) if value
    }
    tables: dict[int, ProcessTable] = {}

    def process(global_id: Any) -> ProcessTable:
        key = int(global_id) & _PROCESS_MASK if isinstance(global_id, int) else 0
        if key not in tables:
            tables[key] = ProcessTable(source, (key >> 24) & 0xFFFFFF)
        return tables[key]

    _device_spans(database, strings, process)
    _host_spans(database, strings, process)
    found = in_order(tables)
    if not found:
        raise FormatError(
            f"{source}: an Nsight Systems export without an event of CUDA or NVTX: record with"
            " --trace=cuda,nvtx"
        )
    names = _gpu_names(database)
    gpus = _gpus_of_processes(database)
    first, *others = (
        trace
        for table in found
        for trace in table.finish(
            "nsys", {d: names[gpu] for d, gpu in gpus(table.pid).items() if gpu in names}
        )
    )
    unnamed = {_NO_KERNEL, _NO_CALL}.intersection(
        name for trace in (first, *others) for name in trace.names
    )
    if unnamed:
        text = f"names of kernels or calls are not in it: shown as {' and '.join(sorted(unnamed))}"
        first = replace(first, problems=(Problem(source, "StringIds", text), *first.problems))
    return first, *others


def _gpu_names(database: Database) -> dict[Any, str]:
    """By what the export calls a GPU; before 2021.2 that was its number in CUDA."""
    found: dict[Any, str] = {}
    for table, key in (("TARGET_INFO_GPU", "id"), ("TARGET_INFO_CUDA_GPU", "deviceId")):
        for place, (gpu, name) in enumerate(database.rows(table, (key, "name"))):
            found.setdefault(place if gpu is None else gpu, str(name))
    return found


def _gpus_of_processes(database: Database) -> Callable[[int], Mapping[int, Any]]:
    """A process numbers the GPUs that it may see from 0; without the table all see all."""
    told: dict[Any, dict[int, Any]] = {}
    for pid, device, gpu in database.rows("TARGET_INFO_CUDA_DEVICE", ("pid", "cudaId", "gpuId")):
        if isinstance(device, int):
            told.setdefault(pid, {})[device] = gpu
    same = {device: device for device in range(MAX_GPUS)}
    return lambda pid: told.get(pid, same)


def _device_spans(database: Database, strings: dict[int, str], process: Process) -> None:
    shape = ("start", "end", "globalPid", "deviceId", "streamId", "correlationId", "contextId")
    # Waits have the device 0, whichever their context is of.
    devices: dict[tuple[Any, Any], Any] = {}

    def note(row: Sequence[Any]) -> None:
        if row[6] is not None and len(devices) < MAX_CONTEXTS:
            devices[row[2], row[6]] = row[3]

    for row in database.rows(_KERNEL, (*shape, "demangledName", "shortName", *_SIDES)):
        note(row)
        name = strings.get(row[7]) or strings.get(row[8]) or _NO_KERNEL
        table = process(row[2])
        table.add_device(row[:2], row[3:5], Kind.KERNEL, name, row[5])
        table.add_grid(row[5], row[0], row[9:12], row[12:15])
    for row in database.rows(_GRAPH, shape):
        process(row[2]).add_device(row[:2], row[3:5], Kind.KERNEL, "(graph)", row[5])
    for row in database.rows(_MEMCPY, (*shape, "copyKind", "srcKind", "dstKind", "bytes")):
        note(row)
        source, target = (_MEMORY_KINDS.get(kind, "Unknown") for kind in row[8:10])
        name = f"Memcpy {_COPY_KINDS.get(row[7], 'Unknown')} ({source} -> {target})"
        process(row[2]).add_device(row[:2], row[3:5], Kind.MEMCPY, name, row[5], row[10])
    for row in database.rows(_MEMSET, (*shape, "bytes")):
        name = "Memset (Device)"
        process(row[2]).add_device(row[:2], row[3:5], Kind.MEMSET, name, row[5], row[7])
    for row in database.rows(_SYNC, (*shape, "syncType")):
        name = _SYNC_KINDS.get(row[7], "Sync")
        lane = devices.get((row[2], row[6]), row[3]), row[4]
        process(row[2]).add_device(row[:2], lane, Kind.SYNC, name, row[5])


def _host_spans(database: Database, strings: dict[int, str], process: Process) -> None:
    for row in database.rows(_RUNTIME, ("start", "end", "globalTid", "correlationId", "nameId")):
        name = re.sub(r"_v\d+$", "", strings.get(row[4], _NO_CALL))
        process(row[2]).add_host(row[:2], _thread(row[2]), Kind.RUNTIME, name, row[3])
    for row in database.rows(_NVTX, ("start", "end", "globalTid", "eventType", "text", "textId")):
        if row[3] not in _NVTX_RANGES:
            continue
        text = row[4] or strings.get(row[5]) or "(unnamed range)"
        name = _OPERATOR_NOISE.sub("", str(text))
        kind = Kind.OPERATOR if _OPERATOR.search(name) else Kind.ANNOTATION
        process(row[2]).add_host(row[:2], _thread(row[2]), kind, name)


def _thread(global_id: Any) -> int:
    return global_id & 0xFFFFFF if isinstance(global_id, int) else 0
