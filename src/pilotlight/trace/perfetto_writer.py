"""Writes traces as a Perfetto protobuf, all ranks in one file."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

from pilotlight.trace.trace import Int64, Trace

# Field numbers of perfetto.protos: TracePacket, TrackDescriptor, TrackEvent.
_PACKET = 1
_TIMESTAMP, _SEQUENCE, _TRACK_EVENT, _INTERNED, _FLAGS, _DESCRIPTOR = 8, 10, 11, 12, 13, 60
_UUID, _NAME, _PROCESS, _PARENT = 1, 2, 3, 5
_EVENT_TYPE, _EVENT_TRACK, _EVENT_NAME = 9, 11, 10
_BEGIN, _END = 1, 2
_STATE_CLEARED, _NEEDS_STATE = 1, 2


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
    names = b"".join(
        _bytes(2, _number(1, i + 1) + _bytes(2, name.encode("utf-8", "replace")))
        for i, name in enumerate(trace.names)
    )
    head = tag + _number(_FLAGS, _STATE_CLEARED) + _bytes(_INTERNED, names)
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
