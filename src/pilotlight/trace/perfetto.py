"""Reads Perfetto's protobuf traces: slices, counters and arrows of their tracks."""

from __future__ import annotations

import zlib
from array import array
from collections import Counter as Tally
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from pilotlight.errors import FormatError
from pilotlight.trace.argument_table import ArgumentTable
from pilotlight.trace.flow import paired
from pilotlight.trace.kineto_detail import KinetoDetail
from pilotlight.trace.perfetto_clock import Clocks
from pilotlight.trace.perfetto_event import (
    BEGIN,
    CLOCK,
    COUNTER,
    END,
    EVENT,
    INSTANT,
    Event,
    Sequence,
    event_of,
    read_defaults,
    read_interned,
    whole,
)
from pilotlight.trace.perfetto_track import Tracks
from pilotlight.trace.problem import Problem
from pilotlight.trace.protobuf import Field, fields
from pilotlight.trace.span_table import KIND_OF_CATEGORY, SpanTable
from pilotlight.trace.step import steps_of
from pilotlight.trace.trace import NONE, Kind, Trace

MAX_PACKET_BYTES = 64 << 20

# Field numbers of TracePacket and of the messages inside.
_PACKET = 1
_CLOCKS, _TIME, _SEQUENCE, _INTERNED, _FLAGS = 6, 8, 10, 12, 13
_CLEARED, _COMPRESSED, _DEFAULTS, _DESCRIPTOR = 41, 50, 59, 60
_OF_FIRST_PACKETS = (33, 36, 45, 89)  # configuration, synchronisation, system, identity

# How rocprofv3 and Perfetto's own producers call what Kineto calls otherwise.
_KINDS = KIND_OF_CATEGORY | {
    "kernel_dispatch": Kind.KERNEL,
    "memory_copy": Kind.MEMCPY,
    "hip_api": Kind.RUNTIME,
    "hip_runtime_api": Kind.RUNTIME,
    "hsa_api": Kind.RUNTIME,
    "marker_api": Kind.ANNOTATION,
    "rccl_api": Kind.ANNOTATION,
}


@dataclass(frozen=True)
class _Open:
    start_ns: int
    event: Event


def read_perfetto(blocks: Iterator[bytes], source: str) -> tuple[Trace, ...]:
    """A trace for each process that is called `rank N`, and one for all others."""
    build = _Build(source)
    cut = ""
    try:
        for packet in _packets(blocks):
            build.add(packet)
    except FormatError as error:
        cut = str(error)
    traces = build.finish(cut)
    if not traces:
        raise FormatError(f"{source}: {cut or 'no slice of a track in it'}")
    return traces


def looks_like_perfetto(first: bytes) -> bool:
    """Whether this begins with what only a packet has; it may end before the packet does."""
    try:
        head = _packet_end(first, 0, 0)
        if head is None:
            return False
        start, stop = head
        for number, _ in fields(memoryview(first)[start:stop]):
            if number in (_CLOCKS, _TIME, _SEQUENCE, _DESCRIPTOR, *_OF_FIRST_PACKETS):
                return True
    except FormatError:
        pass
    return False


def _packets(blocks: Iterator[bytes]) -> Iterator[memoryview]:
    pending, place = b"", 0
    for block in blocks:
        pending += block
        used = 0
        view = memoryview(pending)
        while (end := _packet_end(pending, used, place)) is not None:
            start, stop = end
            if stop > len(pending):
                break
            yield view[start:stop]
            used = stop
        pending, place = pending[used:], place + used
    if pending:
        raise FormatError(f"byte {place}: the file ends inside a packet; what came before is used")


def _packet_end(data: bytes, at: int, place: int) -> tuple[int, int] | None:
    """Where the packet that starts here has its content; None if its head is not whole yet."""
    if at >= len(data):
        return None
    if data[at] != _PACKET << 3 | 2:
        raise FormatError(f"byte {place + at}: no packet of a Perfetto trace")
    length = shift = 0
    for i in range(at + 1, min(at + 11, len(data))):
        length |= (data[i] & 0x7F) << shift
        if data[i] < 0x80:
            if length > MAX_PACKET_BYTES:
                raise FormatError(f"byte {place + at}: a packet longer than {MAX_PACKET_BYTES}")
            return i + 1, i + 1 + length
        shift += 7
    if len(data) - at > 10:
        raise FormatError(f"byte {place + at}: no packet of a Perfetto trace")
    return None


class _Build:
    def __init__(self, source: str) -> None:
        self.source = source
        self.tables: dict[int, SpanTable] = {}
        self.skipped: Tally[str] = Tally()
        self.clocks = Clocks()
        self.tracks = Tracks()
        self._sequences: dict[int, Sequence] = {}
        self._open: dict[int, list[_Open]] = {}
        self._flows: dict[int, tuple[array[int], ...]] = {}
        self._seen_flows: set[int] = set()
        self._arguments: defaultdict[int, ArgumentTable] = defaultdict(ArgumentTable)

    def add(self, packet: memoryview) -> None:
        parts: dict[int, Field] = {}
        for number, value in fields(packet):
            parts[number] = value
        key = whole(parts.get(_SEQUENCE))
        sequence = self._sequences.setdefault(key, Sequence())
        if whole(parts.get(_FLAGS)) & 1 or whole(parts.get(_CLEARED)):
            self._sequences[key] = sequence = Sequence()
        for number, value in parts.items():
            if not isinstance(value, memoryview):
                continue
            if number == _DEFAULTS:
                read_defaults(value, sequence)
            elif number == _INTERNED:
                read_interned(value, sequence)
            elif number == _CLOCKS:
                self.clocks.learn(key, value)
            elif number == _DESCRIPTOR:
                self.tracks.describe(value)
            elif number == _COMPRESSED:
                self._add_compressed(value)
            elif number != EVENT:
                self.skipped[f"packet field {number}"] += 1
        event = parts.get(EVENT)
        if isinstance(event, memoryview):
            clock = whole(parts.get(CLOCK)) or sequence.clock
            time_ns = self.clocks.boot_ns(key, clock, whole(parts.get(_TIME)))
            self._add_event(event_of(event, sequence), time_ns)

    def _add_compressed(self, value: memoryview) -> None:
        try:
            content = zlib.decompressobj().decompress(bytes(value), MAX_PACKET_BYTES)
        except zlib.error as error:
            raise FormatError(f"a compressed packet is damaged ({error})") from None
        for packet in _packets(iter([content])):
            self.add(packet)

    def _add_event(self, event: Event, time_ns: int) -> None:
        table = self._table(event.track)
        if event.flows:
            self._add_flows(event, time_ns)
        if event.duration_ns != NONE:
            self._add_span(_Open(time_ns, event), time_ns + event.duration_ns)
        elif event.type == BEGIN:
            self._open.setdefault(event.track, []).append(_Open(time_ns, event))
        elif event.type == END:
            opened = self._open.get(event.track)
            if opened:
                self._add_span(opened.pop(), time_ns)
            else:
                table.dropped["ends without a begin"] += 1
        elif event.type == COUNTER and event.value is not None:
            name, value = self.tracks.counted(event.track, event.value)
            table.add_counter(time_ns, name or event.name, value)
        else:
            self.skipped["instant" if event.type == INSTANT else f"type {event.type}"] += 1

    def _add_span(self, opened: _Open, end_ns: int) -> None:
        event = opened.event
        table = self._table(event.track)
        row = len(table)
        table.add(
            opened.start_ns,
            end_ns - opened.start_ns,
            _KINDS.get(event.category, Kind.OTHER),
            event.name or "(unnamed slice)",
            self.tracks.lane(event.track),
            event.correlation,
            event.size_bytes,
        )
        if len(table) > row:
            arguments = self._arguments[self.tracks.rank(event.track)]
            for key, value in event.arguments.items():
                arguments.add(row, key, value)

    def _add_flows(self, event: Event, time_ns: int) -> None:
        rank = self.tracks.rank(event.track)
        ends = self._flows.setdefault(rank, tuple(array(code) for code in "BIIqq"))
        lane = self._table(event.track).lanes[self.tracks.lane(event.track)]
        for number, is_last in event.flows:
            phase = "f" if is_last else "t" if number in self._seen_flows else "s"
            self._seen_flows.add(number)
            row = ord(phase), 0, lane, number & (1 << 63) - 1, max(0, time_ns)
            for column, value in zip(ends, row, strict=True):
                column.append(value)

    def _table(self, track: int) -> SpanTable:
        rank = self.tracks.rank(track)
        if rank not in self.tables:
            self.tables[rank] = SpanTable(self.source)
        return self.tables[rank]

    def finish(self, cut: str) -> tuple[Trace, ...]:
        for track, opened in self._open.items():
            if opened:
                self._table(track).dropped["begins without an end"] += len(opened)
        used = {rank: table for rank, table in self.tables.items() if len(table)}
        return tuple(
            self._trace(used[rank], rank, cut if i == 0 else "")
            for i, rank in enumerate(sorted(used))
        )

    def _trace(self, table: SpanTable, rank: int, cut: str) -> Trace:
        ends = self._flows.get(rank, tuple(array(code) for code in "BIIqq"))
        flow_name = table.names["flow"] if len(ends[0]) else 0
        columns = [np.array(column) for column in ends]
        columns[1][:] = flow_name
        spans = table.spans()
        names, lanes = tuple(table.names), table.lane_table({})
        arguments = self._arguments[rank].arguments()
        place, _, reason = cut.partition(": ")
        cuts = (Problem(self.source, place, reason),) if cut else ()
        return Trace(
            source=self.source,
            format="perfetto",
            rank=rank,
            world_size=self.tracks.world_size(rank),
            devices=self.tracks.labels(rank),
            names=names,
            lanes=lanes,
            spans=spans,
            counters=table.counters(),
            steps=steps_of(names, spans),
            problems=(*cuts, *table.problems()),
            skipped=dict(self.skipped),
            flows=paired(tuple(columns), 0),
            arguments=arguments,
            detail=KinetoDetail(names, lanes, spans, arguments),
        )
