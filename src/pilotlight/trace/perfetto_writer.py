"""Writes traces as a Perfetto protobuf, all ranks in one file."""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

from pilotlight.trace.span_table import CATEGORY_OF_KIND
from pilotlight.trace.trace import NONE, Int64, Kind, Trace

# Field numbers of perfetto.protos: TracePacket, TrackDescriptor, TrackEvent.
_PACKET = 1
_TIMESTAMP, _SEQUENCE, _TRACK_EVENT, _INTERNED, _FLAGS, _DESCRIPTOR = 8, 10, 11, 12, 13, 60
_UUID, _NAME, _PROCESS, _PARENT = 1, 2, 3, 5
_COUNTER_TRACK = 8
_EVENT_TYPE, _EVENT_TRACK, _EVENT_NAME, _EVENT_CATEGORY, _EVENT_VALUE = 9, 11, 10, 3, 44
_EVENT_ANNOTATION, _ANNOTATION_NAME, _ANNOTATION_VALUE = 4, 1, 4
_CATEGORIES, _NAMES, _ANNOTATIONS = 1, 2, 3
_BEGIN, _END, _VALUE = 1, 2, 4
_STATE_CLEARED, _NEEDS_STATE = 1, 2
_ARGUMENTS = ("correlation", "bytes")


def write_perfetto(traces: Sequence[Trace], path: Path) -> None:
    with path.open("wb") as file:
        for number, trace in enumerate(traces, 1):
            for packet in _packets(trace, number):
                file.write(_bytes(_PACKET, packet))


def _packets(trace: Trace, sequence: int) -> Iterator[bytes]:
    tag = _number(_SEQUENCE, sequence)
    base = sequence << 32
    process = _number(1, 1_000_000 + trace.rank) + _bytes(6, f"rank {trace.rank}".encode())
    descriptor = _number(_UUID, base) + _bytes(_PROCESS, process)
    interned = b"".join(
        _bytes(field, _number(1, i + 1) + _bytes(2, name.encode("utf-8", "replace")))
        for field, texts in (
            (_CATEGORIES, [CATEGORY_OF_KIND[kind] for kind in Kind]),
            (_NAMES, trace.names),
            (_ANNOTATIONS, _ARGUMENTS),
        )
        for i, name in enumerate(texts)
    )
    head = tag + _number(_FLAGS, _STATE_CLEARED) + _bytes(_INTERNED, interned)
    yield head + _bytes(_DESCRIPTOR, descriptor)
    track = base
    for number, lane in enumerate(trace.lanes):
        rows = np.flatnonzero(trace.spans.lane == number)
        title = lane.name or f"{lane.process} {lane.thread}"
        for part in nested_rows(trace, rows):
            track += 1
            descriptor = _number(_UUID, track) + _bytes(_NAME, title.encode("utf-8", "replace"))
            yield tag + _bytes(_DESCRIPTOR, descriptor + _number(_PARENT, base))
            yield from _slices(trace, part, track, tag)
    yield from _counters(trace, track, base, tag)


def _counters(trace: Trace, track: int, base: int, tag: bytes) -> Iterator[bytes]:
    counters = trace.counters
    place = tag + _number(_FLAGS, _NEEDS_STATE)
    for name in np.flatnonzero(np.bincount(counters.name)).tolist():
        track += 1
        title = _bytes(_NAME, trace.names[name].encode("utf-8", "replace"))
        descriptor = _number(_UUID, track) + title + _number(_PARENT, base)
        yield tag + _bytes(_DESCRIPTOR, descriptor + _bytes(_COUNTER_TRACK, b""))
        rows = np.flatnonzero(counters.name == name)
        rows = rows[np.argsort(counters.time_ns[rows], kind="stable")]
        on_track = _number(_EVENT_TYPE, _VALUE) + _number(_EVENT_TRACK, track)
        key = _varint(_EVENT_VALUE << 3 | 1)
        for time_ns, value in zip(
            counters.time_ns[rows].tolist(), counters.value[rows].tolist(), strict=True
        ):
            event = on_track + key + struct.pack("<d", value)
            yield place + _number(_TIMESTAMP, time_ns) + _bytes(_TRACK_EVENT, event)


def nested_rows(trace: Trace, rows: Int64) -> list[list[int]]:
    """Rows in the order of begins, divided so that in each part spans lie within or after each
    other: a viewer would cut off those that overlap otherwise."""
    start = trace.spans.start_ns[rows]
    end = start + trace.spans.duration_ns[rows]
    order = np.lexsort((-end, start))
    parts: list[list[int]] = []
    stacks: list[list[int]] = []
    for i in order.tolist():
        begin, finish = int(start[i]), int(end[i])
        for part, stack in zip(parts, stacks, strict=True):
            while stack and stack[-1] <= begin:
                stack.pop()
            if not stack or finish <= stack[-1]:
                stack.append(finish)
                part.append(int(rows[i]))
                break
        else:
            parts.append([int(rows[i])])
            stacks.append([finish])
    return parts


def _slices(trace: Trace, rows: list[int], track: int, tag: bytes) -> Iterator[bytes]:
    spans = trace.spans
    place = tag + _number(_FLAGS, _NEEDS_STATE)
    on_track = _number(_EVENT_TRACK, track)
    end_event = _bytes(_TRACK_EVENT, _number(_EVENT_TYPE, _END) + on_track)
    open_ends: list[int] = []
    for row in rows:
        begin = int(spans.start_ns[row])
        while open_ends and open_ends[-1] <= begin:
            yield place + _number(_TIMESTAMP, open_ends.pop()) + end_event
        event = _number(_EVENT_TYPE, _BEGIN) + on_track
        event += _number(_EVENT_NAME, int(spans.name[row]) + 1)
        event += _number(_EVENT_CATEGORY, int(spans.kind[row]) + 1)
        for number, column in enumerate((spans.correlation, spans.bytes), 1):
            if (value := int(column[row])) != NONE:
                told = _number(_ANNOTATION_NAME, number) + _number(_ANNOTATION_VALUE, value)
                event += _bytes(_EVENT_ANNOTATION, told)
        yield place + _number(_TIMESTAMP, begin) + _bytes(_TRACK_EVENT, event)
        open_ends.append(begin + int(spans.duration_ns[row]))
    while open_ends:
        yield place + _number(_TIMESTAMP, open_ends.pop()) + end_event


def _number(field: int, value: int) -> bytes:
    return _varint(field << 3) + _varint(value)


def _bytes(field: int, value: bytes) -> bytes:
    return _varint(field << 3 | 2) + _varint(len(value)) + value


def _varint(value: int) -> bytes:
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)
