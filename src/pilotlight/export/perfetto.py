"""Perfetto's own format: a stream of protobuf packets."""

from __future__ import annotations

from collections.abc import Iterator
from typing import BinaryIO

from pilotlight.export.devices import device_instants, device_tracks
from pilotlight.export.gpu import Work, WorkTrack, gpu_tracks
from pilotlight.export.protobuf import double, fixed, integer, message, text
from pilotlight.export.stacks import process_label, thread_label, thread_samples
from pilotlight.export.timeline import Track, boundaries, counter_tracks, instants, tracks
from pilotlight.recording.recording import Recording

# Field numbers of perfetto/trace/trace_packet.proto and of the messages inside.
_PACKET = 1
_CLOCK_SNAPSHOT, _TIMESTAMP, _SEQUENCE, _TRACK_EVENT, _INTERNED, _FLAGS = 6, 8, 10, 11, 12, 13
_TRACK_DESCRIPTOR, _PERF_SAMPLE = 60, 66
_UUID, _NAME, _PROCESS, _THREAD, _PARENT, _COUNTER = 1, 2, 3, 4, 5, 8
_PROCESS_PID, _PROCESS_CMDLINE, _PROCESS_NAME = 1, 2, 6
_THREAD_PID, _THREAD_TID, _THREAD_NAME = 1, 2, 5
_EVENT_TYPE, _EVENT_TRACK, _EVENT_NAME_ID, _EVENT_ANNOTATION, _EVENT_VALUE = 9, 11, 10, 4, 44
_EVENT_FLOW, _EVENT_FLOW_ENDS = 47, 48
_SLICE_BEGIN, _SLICE_END, _INSTANT, _COUNTER_VALUE = 1, 2, 3, 4
_INTERNED_EVENTS, _INTERNED_FUNCTIONS, _INTERNED_FRAMES, _INTERNED_STACKS = 2, 5, 6, 7
_INTERNED_PATHS, _INTERNED_SOURCES, _INTERNED_MAPPINGS = 17, 18, 19
_ANNOTATION_NAME, _ANNOTATION_INTEGER = 10, 4
_SAMPLE_PID, _SAMPLE_TID, _SAMPLE_STACK, _SAMPLE_MODE, _SAMPLE_COUNT = 2, 3, 4, 5, 6
_MODE_USER = 2
_COUNTER_UNIT = 6
_CLOCK_REALTIME, _CLOCK_MONOTONIC, _CLOCK_BOOTTIME = 1, 3, 6
_STATE_CLEARED, _NEEDS_STATE = 1, 2

_SEQUENCE_ID = 1
_NAMELESS_PID = 1 << 30


def write_perfetto(recording: Recording, out: BinaryIO) -> None:
    for packet in _Packets(recording).all():
        out.write(message(_PACKET, packet))


class _Packets:
    """Makes the packets of one recording; a name or frame is sent once, before its first use."""

    def __init__(self, recording: Recording) -> None:
        self._recording = recording
        self._uuids = 0
        self._names: dict[str, int] = {}
        self._functions: dict[str, int] = {}
        self._sources: dict[str, int] = {}
        self._frames: set[int] = set()
        self._stacks: set[int] = set()
        self._processes: dict[int, int] = {}
        self._threads: dict[tuple[int, int], int] = {}
        recording.load()
        self._pids = {
            process.start.process: process.start.pid or _NAMELESS_PID + process.start.process
            for process in recording.processes
        }

    def all(self) -> Iterator[bytes]:
        yield self._first()
        for process in self._recording.processes:
            index = process.start.process
            self._processes[index] = self._uuid()
            description = message(
                _PROCESS,
                integer(_PROCESS_PID, self._pids[index]),
                text(_PROCESS_CMDLINE, process.command),
                text(_PROCESS_NAME, process_label(self._recording, index)),
            )
            yield _descriptor(self._processes[index], description)
        for track in tracks(self._recording):
            yield from self._track(track)
        for work in gpu_tracks(self._recording):
            yield from self._work(work)
        yield from self._instants()
        yield from self._counters()
        yield from self._devices()
        yield from self._samples()

    def _first(self) -> bytes:
        """Times are CLOCK_MONOTONIC; Perfetto's default is BOOTTIME, so the two are equated."""
        pairs = self._recording.manifest.clocks
        clocks = [
            message(1, integer(1, clock), integer(2, time_ns))
            for clock, time_ns in (
                (_CLOCK_BOOTTIME, pairs[0].monotonic_ns),
                (_CLOCK_MONOTONIC, pairs[0].monotonic_ns),
                (_CLOCK_REALTIME, pairs[0].realtime_ns),
            )
        ]
        mapping = message(_INTERNED_PATHS, integer(1, 1), text(2, "python")) + message(
            _INTERNED_MAPPINGS, integer(1, 1), integer(7, 1)
        )
        return b"".join(
            (
                message(_CLOCK_SNAPSHOT, *clocks),
                integer(_SEQUENCE, _SEQUENCE_ID),
                integer(_FLAGS, _STATE_CLEARED),
                message(_INTERNED, mapping),
            )
        )

    def _uuid(self) -> int:
        self._uuids += 1
        return self._uuids

    def _thread(self, process: int, thread: int) -> tuple[int, bytes]:
        """The track of a thread, and its description if it is new."""
        known = self._threads.get((process, thread))
        if known is not None:
            return known, b""
        uuid = self._threads[process, thread] = self._uuid()
        name = thread_label(self._recording, process, thread)
        about = message(
            _THREAD,
            integer(_THREAD_PID, self._pids[process]),
            integer(_THREAD_TID, thread),
            text(_THREAD_NAME, name),
        )
        return uuid, _descriptor(uuid, integer(_PARENT, self._processes[process]), about)

    def _track(self, track: Track) -> Iterator[bytes]:
        if track.thread is not None:
            uuid, description = self._thread(track.process, track.thread)
            if description:
                yield description
        if track.thread is None or track.number:
            uuid = self._uuid()
            parent = integer(_PARENT, self._processes[track.process])
            yield _descriptor(uuid, parent, text(_NAME, track.title))
        end = _event(_SLICE_END, uuid)
        begins: dict[str, bytes] = {}
        for time_ns, item in boundaries(track.slices):
            if item is None:
                yield _at(time_ns) + end
                continue
            name = item.name
            if name not in begins:
                number, definition = self._name(name)
                begins[name] = _event(_SLICE_BEGIN, uuid, integer(_EVENT_NAME_ID, number))
                yield _at(time_ns) + begins[name] + definition
            else:
                yield _at(time_ns) + begins[name]

    def _work(self, track: WorkTrack) -> Iterator[bytes]:
        """A track of a device, or of the calls that launch its work; arrows join the two."""
        uuid = self._uuid()
        parent = integer(_PARENT, self._processes[track.process])
        yield _descriptor(uuid, parent, text(_NAME, track.title))
        end = _event(_SLICE_END, uuid)
        arrow = _EVENT_FLOW_ENDS if track.is_device else _EVENT_FLOW
        for time_ns, item in boundaries(track.work):
            if item is None:
                yield _at(time_ns) + end
                continue
            number, definition = self._name(item.name)
            parts = [integer(_EVENT_NAME_ID, number)]
            if isinstance(item, Work) and item.flow:
                parts.append(fixed(arrow, item.flow))
            yield _at(time_ns) + _event(_SLICE_BEGIN, uuid, *parts) + definition

    def _name(self, name: str) -> tuple[int, bytes]:
        """The number of an event name, and its definition if it is new."""
        known = len(self._names)
        number = self._names.setdefault(name, known + 1)
        if number <= known:
            return number, b""
        entry = message(_INTERNED_EVENTS, integer(1, number), text(2, name))
        return number, message(_INTERNED, entry)

    def _instants(self) -> Iterator[bytes]:
        for instant in instants(self._recording):
            uuid, description = self._thread(instant.process, instant.thread)
            if description:
                yield description
            number, definition = self._name(instant.name or "mark")
            value = message(
                _EVENT_ANNOTATION,
                text(_ANNOTATION_NAME, "value"),
                integer(_ANNOTATION_INTEGER, instant.value),
            )
            event = _event(_INSTANT, uuid, integer(_EVENT_NAME_ID, number), value)
            yield _at(instant.time_ns) + event + definition

    def _counters(self) -> Iterator[bytes]:
        for counter in counter_tracks(self._recording):
            uuid = self._uuid()
            parent = integer(_PARENT, self._processes[counter.process])
            yield _descriptor(uuid, parent, text(_NAME, counter.name), message(_COUNTER))
            for time_ns, value in zip(
                counter.time_ns.tolist(), counter.values.tolist(), strict=True
            ):
                event = _event(_COUNTER_VALUE, uuid, double(_EVENT_VALUE, value))
                yield _at(time_ns) + event

    def _devices(self) -> Iterator[bytes]:
        """Counters and events of the node: on a track that belongs to no process."""
        if not self._recording.detail("device_values").rows:
            return
        node = self._uuid()
        yield _descriptor(node, text(_NAME, f"node {self._recording.manifest.node}"))
        for track in device_tracks(self._recording):
            uuid = self._uuid()
            about = message(_COUNTER, text(_COUNTER_UNIT, track.unit))
            yield _descriptor(uuid, integer(_PARENT, node), text(_NAME, track.title), about)
            for time_ns, value in zip(track.time_ns.tolist(), track.values.tolist(), strict=True):
                yield _at(time_ns) + _event(_COUNTER_VALUE, uuid, double(_EVENT_VALUE, value))
        for event in device_instants(self._recording):
            number, definition = self._name(event.name)
            instant = _event(_INSTANT, node, integer(_EVENT_NAME_ID, number))
            yield _at(event.time_ns) + instant + definition

    def _samples(self) -> Iterator[bytes]:
        for samples in thread_samples(self._recording):
            _, description = self._thread(samples.process, samples.thread)
            if description:
                yield description
            who = integer(_SAMPLE_PID, self._pids[samples.process]) + integer(
                _SAMPLE_TID, samples.thread
            )
            known: dict[int, bytes] = {}
            for node, time_ns in zip(samples.nodes.tolist(), samples.time_ns.tolist(), strict=True):
                definition = b""
                if node not in known:
                    definition = self._stack(node)
                    known[node] = message(
                        _PERF_SAMPLE,
                        who,
                        integer(_SAMPLE_STACK, node + 1),
                        integer(_SAMPLE_MODE, _MODE_USER),
                        integer(_SAMPLE_COUNT, 1),
                    )
                yield _at(time_ns) + known[node] + definition

    def _stack(self, node: int) -> bytes:
        """The definition of a call stack with whatever it needs that was not sent before."""
        if node in self._stacks:
            return b""
        self._stacks.add(node)
        calls = self._recording.calls
        parts = []
        frames = []
        above = node
        while above:
            frames.append(calls.frames[above])
            above = calls.parents[above]
        for number in frames:
            parts.append(self._frame(number))
        numbers = [integer(2, number + 1) for number in reversed(frames)]
        parts.append(message(_INTERNED_STACKS, integer(1, node + 1), *numbers))
        return message(_INTERNED, *parts)

    def _frame(self, number: int) -> bytes:
        if number in self._frames:
            return b""
        self._frames.add(number)
        frame = self._recording.calls.frame_list[number]
        function, function_text = _interned(self._functions, _INTERNED_FUNCTIONS, frame.function)
        source, source_text = _interned(self._sources, _INTERNED_SOURCES, frame.file)
        entry = message(
            _INTERNED_FRAMES,
            integer(1, number + 1),
            integer(2, function),
            integer(3, 1),
            integer(4, number),
            integer(5, source),
            integer(6, frame.line),
        )
        return function_text + source_text + entry


def _interned(numbers: dict[str, int], field: int, value: str) -> tuple[int, bytes]:
    known = len(numbers)
    number = numbers.setdefault(value, known + 1)
    if number <= known:
        return number, b""
    return number, message(field, integer(1, number), text(2, value))


def _descriptor(uuid: int, *parts: bytes) -> bytes:
    return integer(_SEQUENCE, _SEQUENCE_ID) + message(
        _TRACK_DESCRIPTOR, integer(_UUID, uuid), *parts
    )


def _at(time_ns: int) -> bytes:
    return integer(_TIMESTAMP, time_ns) + _ON_SEQUENCE


def _event(kind: int, uuid: int, *parts: bytes) -> bytes:
    return message(_TRACK_EVENT, integer(_EVENT_TYPE, kind), integer(_EVENT_TRACK, uuid), *parts)


_ON_SEQUENCE = integer(_SEQUENCE, _SEQUENCE_ID) + integer(_FLAGS, _NEEDS_STATE)
