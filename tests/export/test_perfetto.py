from __future__ import annotations

import io
from collections import Counter, defaultdict
from pathlib import Path
from typing import Any

import pytest
from example import write_head
from job import EVIL, write_job

from pilotlight.export.perfetto import write_perfetto
from pilotlight.recording.recording import Recording

protos = pytest.importorskip("perfetto.protos.perfetto.trace.perfetto_trace_pb2")


class Trace:
    """What a reader makes of the packets: tracks, slices and samples with their names."""

    def __init__(self, folder: Path) -> None:
        out = io.BytesIO()
        write_perfetto(Recording.open(folder), out)
        trace = protos.Trace()
        trace.ParseFromString(out.getvalue())
        self.packets = list(trace.packet)
        self.tracks: dict[int, Any] = {}
        self.slices: dict[str, list[tuple[str, int, int]]] = defaultdict(list)
        self.instants: list[tuple[str, int]] = []
        self.counters: dict[str, list[float]] = defaultdict(list)
        self.samples: list[tuple[int, int, list[str]]] = []
        self._names: dict[int, str] = {}
        self._functions: dict[int, str] = {}
        self._frames: dict[int, int] = {}
        self._stacks: dict[int, list[int]] = {}
        self._open: dict[int, list[tuple[str, int]]] = defaultdict(list)
        for packet in self.packets:
            self._read(packet)
        assert not any(self._open.values())

    def title(self, uuid: int) -> str:
        track = self.tracks[uuid]
        if track.HasField("process"):
            return str(track.process.process_name)
        if track.HasField("thread"):
            return f"{self.title(track.parent_uuid)} {track.thread.thread_name} {track.thread.tid}"
        return f"{self.title(track.parent_uuid)} {track.name}"

    def _read(self, packet: Any) -> None:
        assert packet.trusted_packet_sequence_id == 1
        data = packet.interned_data
        self._names.update((entry.iid, entry.name) for entry in data.event_names)
        self._functions.update((entry.iid, entry.str.decode()) for entry in data.function_names)
        self._frames.update((entry.iid, entry.function_name_id) for entry in data.frames)
        self._stacks.update((entry.iid, list(entry.frame_ids)) for entry in data.callstacks)
        if packet.HasField("track_descriptor"):
            self.tracks[packet.track_descriptor.uuid] = packet.track_descriptor
        elif packet.HasField("perf_sample"):
            sample = packet.perf_sample
            frames = [self._functions[self._frames[f]] for f in self._stacks[sample.callstack_iid]]
            self.samples.append((sample.pid, packet.timestamp, frames))
        elif packet.HasField("track_event"):
            self._event(packet.timestamp, packet.track_event)

    def _event(self, time_ns: int, event: Any) -> None:
        kinds = protos.TrackEvent
        if event.type == kinds.TYPE_SLICE_BEGIN:
            self._open[event.track_uuid].append((self._names[event.name_iid], time_ns))
        elif event.type == kinds.TYPE_SLICE_END:
            name, start_ns = self._open[event.track_uuid].pop()
            self.slices[self.title(event.track_uuid)].append((name, start_ns, time_ns))
        elif event.type == kinds.TYPE_INSTANT:
            value = event.debug_annotations[0].int_value
            self.instants.append((self._names[event.name_iid], value))
        else:
            self.counters[self.title(event.track_uuid)].append(event.double_counter_value)


def test_ranges_are_slices_on_the_track_of_their_thread(tmp_path: Path) -> None:
    slices = Trace(write_job(tmp_path)).slices
    assert sorted(slices["rank 0 MainThread 100"])[:2] == [
        (EVIL, 10_100, 10_300),
        (EVIL, 11_100, 11_300),
    ]
    assert ("open (never closed)", 12_700, 12_800) in slices["rank 0 MainThread 100"]
    assert slices["rank 0 MainThread"] == [("overlap", 10_300, 11_200)]


def test_steps_collections_and_losses_have_tracks_of_the_process(tmp_path: Path) -> None:
    slices = Trace(write_job(tmp_path)).slices
    assert slices["rank 1 steps"][0] == ("step 0", 10_000, 11_000)
    assert slices["rank 1 garbage collection"] == [("garbage collection", 11_000, 11_050)]
    assert slices["rank 1 lost records"] == [("9 records lost: the ring was full", 11_500, 11_600)]


def test_samples_carry_their_whole_stack(tmp_path: Path) -> None:
    samples = Trace(write_job(tmp_path)).samples
    assert Counter(pid for pid, _, _ in samples) == {100: 7, 101: 7}
    assert samples[0] == (100, 10_000, ["main", "forward"])
    assert samples[1] == (100, 10_500, ["main", EVIL])


def test_a_thread_with_nothing_but_samples_has_its_name(tmp_path: Path) -> None:
    trace = Trace(write_job(tmp_path))
    assert "rank 1 loader 900" in [trace.title(uuid) for uuid in trace.tracks]


def test_counters_and_marks_are_there(tmp_path: Path) -> None:
    trace = Trace(write_job(tmp_path))
    assert trace.counters["rank 0 loss"] == [0.5, -0.5, -1.5]
    assert trace.instants.count(("epoch", -4)) == 2


def test_the_clocks_tell_wall_time(tmp_path: Path) -> None:
    packet = Trace(write_job(tmp_path)).packets[0]
    clocks = {clock.clock_id: clock.timestamp for clock in packet.clock_snapshot.clocks}
    assert clocks == {6: 1_000, 3: 1_000, 1: 1_789_000_000_000_001_000}


def test_an_empty_recording_gives_a_trace_without_events(tmp_path: Path) -> None:
    write_head(tmp_path, ranks=0)
    assert len(Trace(tmp_path).packets) == 1
