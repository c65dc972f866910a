"""Writes traces as a Perfetto protobuf, all ranks in one file."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pilotlight.export.protobuf import double, fixed, integer, message
from pilotlight.trace.flow import launch_arrows
from pilotlight.trace.kineto import ARGUMENTS
from pilotlight.trace.nested import nested_rows
from pilotlight.trace.span_table import CATEGORY_OF_KIND
from pilotlight.trace.step import with_step_spans
from pilotlight.trace.told import Told, told
from pilotlight.trace.trace import NONE, Kind, Trace

# Field numbers of perfetto.protos: TracePacket, TrackDescriptor, TrackEvent.
_PACKET = 1
_TIMESTAMP, _SEQUENCE, _TRACK_EVENT, _INTERNED, _FLAGS, _DESCRIPTOR = 8, 10, 11, 12, 13, 60
_UUID, _NAME, _PROCESS, _PARENT = 1, 2, 3, 5
_COUNTER_TRACK = 8
_EVENT_TYPE, _EVENT_TRACK, _EVENT_NAME, _EVENT_CATEGORY, _EVENT_VALUE = 9, 11, 10, 3, 44
_EVENT_ANNOTATION, _ANNOTATION_NAME = 4, 1
_EVENT_ARROW = 47
_WHOLE, _REAL, _TEXT = 4, 5, 6  # values of annotations
_CATEGORIES, _NAMES, _ANNOTATIONS = 1, 2, 3
_BEGIN, _END, _VALUE = 1, 2, 4
_STATE_CLEARED, _NEEDS_STATE = 1, 2
_LABEL = 8  # of a process
_ARGUMENTS = {name: i for i, name in enumerate(("correlation", "bytes", *ARGUMENTS), 1)}
ROWS_AT_ONCE = 10_000
_MASK = (1 << 64) - 1


def write_perfetto(traces: Sequence[Trace], path: Path) -> None:
    with path.open("wb") as file:
        for number, trace in enumerate(traces, 1):
            for packet in _packets(with_step_spans(trace), number):
                file.write(message(_PACKET, packet))


def _packets(trace: Trace, sequence: int) -> Iterator[bytes]:
    tag = integer(_SEQUENCE, sequence)
    base = sequence << 32
    title = f"rank {trace.rank}" + (f" of {trace.world_size}" if trace.world_size else "")
    process = integer(1, 1_000_000 + trace.rank) + message(6, title.encode())
    for device in trace.devices:
        process += message(_LABEL, device.encode("utf-8", "replace"))
    descriptor = integer(_UUID, base) + message(_PROCESS, process)
    interned = b"".join(
        message(field, integer(1, i + 1) + message(2, name.encode("utf-8", "replace")))
        for field, texts in (
            (_CATEGORIES, [CATEGORY_OF_KIND[kind] for kind in Kind]),
            (_NAMES, trace.names),
            (_ANNOTATIONS, _ARGUMENTS),
        )
        for i, name in enumerate(texts)
    )
    head = tag + integer(_FLAGS, _STATE_CLEARED) + message(_INTERNED, interned)
    yield head + message(_DESCRIPTOR, descriptor)
    # Numbered in the whole file.
    arrows = launch_arrows(trace.spans)
    arrows[arrows > 0] += base
    track = base
    for number, lane in enumerate(trace.lanes):
        rows = np.flatnonzero(trace.spans.lane == number)
        title = lane.name or f"{lane.process} {lane.thread}"
        for part in nested_rows(trace, rows):
            track += 1
            descriptor = integer(_UUID, track) + message(_NAME, title.encode("utf-8", "replace"))
            yield tag + message(_DESCRIPTOR, descriptor + integer(_PARENT, base))
            yield from _slices(trace, arrows, part, track, tag)
    yield from _counters(trace, track, base, tag)


def _counters(trace: Trace, track: int, base: int, tag: bytes) -> Iterator[bytes]:
    counters = trace.counters
    place = tag + integer(_FLAGS, _NEEDS_STATE)
    for name in np.flatnonzero(np.bincount(counters.name)).tolist():
        track += 1
        title = message(_NAME, trace.names[name].encode("utf-8", "replace"))
        descriptor = integer(_UUID, track) + title + integer(_PARENT, base)
        yield tag + message(_DESCRIPTOR, descriptor + message(_COUNTER_TRACK, b""))
        rows = np.flatnonzero(counters.name == name)
        rows = rows[np.argsort(counters.time_ns[rows], kind="stable")]
        on_track = integer(_EVENT_TYPE, _VALUE) + integer(_EVENT_TRACK, track)
        for time_ns, value in zip(
            counters.time_ns[rows].tolist(), counters.value[rows].tolist(), strict=True
        ):
            event = on_track + double(_EVENT_VALUE, value)
            yield place + integer(_TIMESTAMP, time_ns) + message(_TRACK_EVENT, event)


def _slices(
    trace: Trace, arrows: NDArray[np.int64], rows: list[int], track: int, tag: bytes
) -> Iterator[bytes]:
    spans = trace.spans
    place = tag + integer(_FLAGS, _NEEDS_STATE)
    on_track = integer(_EVENT_TRACK, track)
    end_event = message(_TRACK_EVENT, integer(_EVENT_TYPE, _END) + on_track)
    open_ends: list[int] = []
    for row, said in zip(rows, _told(trace, rows), strict=True):
        begin = int(spans.start_ns[row])
        while open_ends and open_ends[-1] <= begin:
            yield place + integer(_TIMESTAMP, open_ends.pop()) + end_event
        event = integer(_EVENT_TYPE, _BEGIN) + on_track
        event += integer(_EVENT_NAME, int(spans.name[row]) + 1)
        event += integer(_EVENT_CATEGORY, int(spans.kind[row]) + 1)
        for name, column in (("correlation", spans.correlation), ("bytes", spans.bytes)):
            if (value := int(column[row])) != NONE:
                event += _annotation(name, value)
        for name, value in said.items():
            if name in _ARGUMENTS:  # counters of Nsight Compute have no end of names
                event += _annotation(name, value)
        if arrow := int(arrows[row]):
            event += fixed(_EVENT_ARROW, arrow)
        yield place + integer(_TIMESTAMP, begin) + message(_TRACK_EVENT, event)
        open_ends.append(begin + int(spans.duration_ns[row]))
    while open_ends:
        yield place + integer(_TIMESTAMP, open_ends.pop()) + end_event


def _told(trace: Trace, rows: list[int]) -> Iterator[Told]:
    for begin in range(0, len(rows), ROWS_AT_ONCE):
        yield from told(trace, np.array(rows[begin : begin + ROWS_AT_ONCE], np.int64))


def _annotation(name: str, value: Any) -> bytes:
    number = integer(_ANNOTATION_NAME, _ARGUMENTS[name])
    if isinstance(value, int):
        return message(_EVENT_ANNOTATION, number + integer(_WHOLE, value & _MASK))
    if isinstance(value, float):
        return message(_EVENT_ANNOTATION, number + double(_REAL, value))
    text = value if isinstance(value, str) else json.dumps(value)
    return message(_EVENT_ANNOTATION, number + message(_TEXT, text.encode("utf-8", "replace")))
