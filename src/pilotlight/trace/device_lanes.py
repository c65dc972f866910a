"""Chrome traces that tell devices by the names of processes, not by categories: those of JAX,
TensorFlow and ROCm's tools."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np

from pilotlight.trace.kineto_detail import KinetoDetail
from pilotlight.trace.several_devices import each_device, of_rows
from pilotlight.trace.trace import NONE, Bool, Kind, Trace, UInt8

_DEVICE = re.compile(r"^(?:.*/device:(?:GPU|TPU):|GPU ?)(\d{1,6})\b")
_STREAM = re.compile(r"^Stream #|^XLA Ops$|^(?:Async XLA|XLA Async) Ops$", re.IGNORECASE)
# Operations of a TPU that only hold others, which are spans of the same line.
_HOLDS = re.compile(r"^(?:while|conditional|call)(?:\.\d+)?(?: \(|$)")
_COPY = re.compile(r"^Mem(?:cpy|set)|^Copy(?:Host|Device)To|^copy-(?:start|done)", re.IGNORECASE)
_LAUNCH = re.compile(r"Launch|Memcpy|Memset|Synchronize|^cu[A-Z]|^cuda[A-Z]|^hip[A-Z]")


def by_device(trace: Trace) -> tuple[Trace, ...]:
    """A trace for each device that a process computes on, by categories or, where there are none,
    by what names its processes; the same trace if there is one."""
    if trace.spans.is_kind(Kind.KERNEL, Kind.MEMCPY, Kind.MEMSET).any():
        return each_device(trace, lambda process: _model(trace, process))
    numbers = {
        process: int(match.group(1))
        for process, name in trace.processes.items()
        if (match := _DEVICE.match(name))
    }
    lanes = np.array([numbers.get(lane.process, NONE) for lane in trace.lanes], np.int64)
    spans = trace.spans
    if not (lanes != NONE).any():
        return (trace,)
    place = lanes[spans.lane]
    chosen = (place != NONE) & (spans.kind == Kind.OTHER)
    if not chosen.any():
        return (trace,)
    told = replace(trace, spans=replace(spans, kind=_kinds(trace, chosen)))
    found = np.unique(place[chosen]).tolist()
    if len(found) == 1:
        return (told,)
    return tuple(_of_rows(told, (place == NONE) | (place == number), number) for number in found)


def _model(trace: Trace, process: str) -> tuple[str, ...]:
    """Kernels are shown under the number of their device."""
    number = int(process) if process.isdecimal() and len(process) < 6 else len(trace.devices)
    return trace.devices[number : number + 1] or trace.devices[:1]


def _kinds(trace: Trace, on_device: Bool) -> UInt8:
    """Of all spans, with what the names tell of those that have no category."""
    spans = trace.spans
    streams = np.array([is_stream(lane.name) for lane in trace.lanes], np.bool_)[spans.lane]
    # Queues in traces of ROCm's tools have no name.
    if not (streams & on_device).any():
        streams = on_device
    device = np.array([device_kind(name) for name in trace.names], np.uint8)[spans.name]
    host = np.array([host_kind(name) for name in trace.names], np.uint8)[spans.name]
    told = np.where(streams, device, np.where(on_device, np.uint8(Kind.DEVICE_ANNOTATION), host))
    kinds: UInt8 = np.where(spans.kind == Kind.OTHER, told, spans.kind)
    return kinds


def is_stream(line: str) -> bool:
    """Other lines of a device repeat these by module, step or name scope."""
    return _STREAM.search(line) is not None


def device_kind(name: str) -> Kind:
    """Of a span on a stream."""
    if _HOLDS.match(name):
        return Kind.DEVICE_ANNOTATION
    if _COPY.search(name):
        return Kind.MEMSET if name.lower().startswith("memset") else Kind.MEMCPY
    return Kind.KERNEL


def host_kind(name: str) -> Kind:
    if name.startswith("$"):  # $file.py:12 function
        return Kind.PYTHON
    return Kind.RUNTIME if _LAUNCH.search(name) else Kind.OPERATOR


def _of_rows(trace: Trace, rows: Bool, rank: int) -> Trace:
    part = of_rows(trace, rows)
    detail = KinetoDetail(part.names, part.lanes, part.spans, part.arguments)
    return replace(part, rank=rank, detail=detail)
