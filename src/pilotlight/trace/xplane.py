"""Reads XSpace files of JAX and TensorFlow profilers: a trace for each GPU or TPU."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from pilotlight.errors import FormatError
from pilotlight.trace.device_lanes import device_kind, host_kind, is_stream
from pilotlight.trace.protobuf import Field, fields, signed, text
from pilotlight.trace.span_table import SpanTable
from pilotlight.trace.step import STEP_NUMBER, steps_of
from pilotlight.trace.trace import NONE, Kind, Steps, Trace, no_counters

MAX_BYTES = 2 << 30
MOST_NS = 1 << 62

_DEVICE = re.compile(r"/device:(GPU|TPU):(\d+)")
_CORRELATION = "correlation_id"
_STEP_LINE = "Steps"  # of a TPU: spans that are called by the number of the step
_CATEGORY = "hlo_category"
_INSTRUCTION = re.compile(r"%([\w.-]+) = ")  # a TPU's operations can be called by their whole text


@dataclass(frozen=True)
class _Plane:
    name: str
    lines: tuple[memoryview, ...]
    events: dict[int, str]
    stats: dict[int, str]
    device_type: str = ""


def read_xplane(path: Path) -> tuple[Trace, ...]:
    """Raises FormatError if the file is no XSpace."""
    if path.stat().st_size > MAX_BYTES:
        raise FormatError(f"{path}: longer than {MAX_BYTES} bytes: refused")
    try:
        content = memoryview(path.read_bytes())
        planes = [_plane(value) for number, value in fields(content) if number == 1]
        return _traces(planes, path)
    except FormatError as error:
        message = str(error)
        raise FormatError(
            message if message.startswith(str(path)) else f"{path}: {message}"
        ) from None


def _traces(planes: list[_Plane], path: Path) -> tuple[Trace, ...]:
    hosts = [plane for plane in planes if plane.name.startswith("/host:") and plane.lines]
    devices = [(m, plane) for plane in planes if (m := _DEVICE.search(plane.name))]
    if not hosts and not devices:
        raise FormatError(f"{path}: byte 0: no plane of a host or device in it: not an XSpace")
    traces = []
    # A process sees devices that it does not use: these are no ranks.
    devices = [row for row in devices if row[1].lines] or devices[:1]
    # The sparse cores of a TPU have planes of their own.
    parts: dict[int, list[_Plane]] = {}
    for match, plane in devices:
        parts.setdefault(int(match.group(2)), []).append(plane)
    for number, planes_of_device in parts.items():
        traces.append(_trace(path, number, planes_of_device, hosts))
    if not devices:
        traces.append(_trace(path, NONE, [], hosts))
    return tuple(traces)


def _trace(path: Path, rank: int, parts: list[_Plane], hosts: list[_Plane]) -> Trace:
    table = SpanTable(str(path))
    numbered: list[tuple[int, int, int]] = []
    told: list[tuple[int, int, int]] = []
    for plane in parts:
        device = _DEVICE.search(plane.name)
        place = plane.name[device.end() :] if device else ""
        told += _add(table, plane, f"device {rank}{place}", on_device=True)
    for host in hosts:
        numbered += _add(table, host, host.name, on_device=False)
    spans = table.spans()
    names = tuple(table.names)
    return Trace(
        source=str(path),
        format="xplane",
        rank=rank,
        world_size=None,
        devices=tuple(plane.device_type for plane in parts[:1] if plane.device_type),
        names=names,
        lanes=table.lane_table({}),
        spans=spans,
        counters=no_counters(),
        steps=_steps(numbered or told) if numbered or told else steps_of(names, spans),
        problems=tuple(table.problems()),
    )


def _steps(numbered: list[tuple[int, int, int]]) -> Steps:
    """Start, number and duration of each; the first that has a number."""
    by_number: dict[int, tuple[int, int, int]] = {}
    for row in sorted(numbered):
        by_number.setdefault(row[1], row)
    start_ns, number, duration_ns = np.array(sorted(by_number.values()), np.int64).T
    return Steps(number, start_ns, duration_ns)


def _plane(value: int | memoryview) -> _Plane:
    name = ""
    lines: list[memoryview] = []
    events: dict[int, dict[int, list[Field]]] = {}
    stats: dict[int, str] = {}
    own: list[Field] = []
    for number, part in fields(_message(value)):
        if number == 2:
            name = text(part)
        elif number == 3:
            lines.append(_message(part))
        elif number == 4:
            events.update([_entry(part)])
        elif number == 5:
            key, found = _entry(part)
            stats[key] = text(found.get(2, [0])[-1])
        elif number == 6:
            own.append(part)
    is_tpu = (match := _DEVICE.search(name)) is not None and match.group(1) == "TPU"
    titles = {
        key: _operation(found, stats) if is_tpu else text(found.get(2, [0])[-1])
        for key, found in events.items()
    }
    return _Plane(name, tuple(lines), titles, stats, _told(own, stats, "device_type_string"))


def _entry(value: int | memoryview) -> tuple[int, dict[int, list[Field]]]:
    """An entry of a map from ids to messages, as their fields by number."""
    key = 0
    found: dict[int, list[Field]] = {}
    for number, part in fields(_message(value)):
        if number == 1 and isinstance(part, int):
            key = signed(part)
        elif number == 2:
            for inner, field in fields(_message(part)):
                found.setdefault(inner, []).append(field)
    return key, found


def _operation(metadata: dict[int, list[Field]], stats: dict[int, str]) -> str:
    """As people call it, with what XLA says it is where its name does not: `fusion.3 (convolution
    fusion)`."""
    name, display = (text(metadata.get(key, [0])[-1]) for key in (2, 4))
    match = _INSTRUCTION.match(name)
    title = display or (match.group(1) if match else name)
    category = _told(metadata.get(5, []), stats, _CATEGORY)
    return f"{title} ({category})" if category and category not in title else title


def _told(found: list[Field], stats: dict[int, str], wanted: str) -> str:
    """The text of the stat of this name; it can stand among the names of stats."""
    for stat in found:
        parts = dict(fields(_message(stat)))
        key = parts.get(1)
        if isinstance(key, int) and stats.get(key) == wanted:
            other = parts.get(7)
            return stats.get(other, "") if isinstance(other, int) else text(parts.get(5, 0))
    return ""


def _add(
    table: SpanTable, plane: _Plane, process: str, *, on_device: bool
) -> list[tuple[int, int, int]]:
    """Adds the spans of a plane; of those that number a step: start, number and duration."""
    correlation_ids = {key for key, name in plane.stats.items() if name == _CORRELATION}
    step_ids = {key for key, name in plane.stats.items() if name == STEP_NUMBER}
    steps = []
    for line in plane.lines:
        thread, begin_ns, events = _line(line)
        told = _kind_of(thread, on_device)
        for event in events:
            metadata, offset_ps, duration_ps, stats = _event(event)
            name = plane.events.get(metadata, "(unnamed)")
            correlation = max((stats[key] for key in correlation_ids & stats.keys()), default=NONE)
            kind = told(name)
            start_ns = begin_ns + offset_ps // 1000
            duration_ns = duration_ps // 1000
            number = max((stats[key] for key in step_ids & stats.keys()), default=NONE)
            if on_device and thread == _STEP_LINE and name.isdecimal() and len(name) < 18:
                number = int(name)
            if number >= 0 and 0 <= start_ns < MOST_NS and 0 <= duration_ns < MOST_NS:
                steps.append((start_ns, number, duration_ns))
                kind = kind if on_device else Kind.ANNOTATION
            table.add(start_ns, duration_ns, kind, name, (process, thread), correlation)
    return steps


def _kind_of(thread: str, on_device: bool) -> Callable[[str], Kind]:
    """What the spans of a line are, by their names."""
    if not on_device:
        return host_kind
    return device_kind if is_stream(thread) else lambda name: Kind.DEVICE_ANNOTATION


def _line(line: memoryview) -> tuple[str, int, list[memoryview]]:
    name = display = ""
    begin_ns = 0
    events = []
    for number, part in fields(line):
        if number == 2:
            name = text(part)
        elif number == 11:
            display = text(part)
        elif number == 3 and isinstance(part, int):
            begin_ns = signed(part)
        elif number == 4:
            events.append(_message(part))
    return name or display, begin_ns, events


def _event(event: memoryview) -> tuple[int, int, int, dict[int, int]]:
    """Which it is, its times, and its stats that are whole numbers."""
    metadata = offset_ps = duration_ps = 0
    stats: dict[int, int] = {}
    for number, part in fields(event):
        if number == 4:
            stats.update([_stat(_message(part))])
        elif isinstance(part, int):
            if number == 1:
                metadata = signed(part)
            elif number == 2:
                offset_ps = signed(part)
            elif number == 3:
                duration_ps = signed(part)
    return metadata, offset_ps, duration_ps, stats


def _stat(stat: memoryview) -> tuple[int, int]:
    identity, value = 0, NONE
    for number, part in fields(stat):
        if isinstance(part, int):
            if number == 1:
                identity = signed(part)
            elif number in (3, 4):
                value = signed(part)
    return identity, value


def _message(value: int | memoryview) -> memoryview:
    if isinstance(value, int):
        raise FormatError("byte 0: a number where a message should be: not an XSpace")
    return value
