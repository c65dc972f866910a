from __future__ import annotations

import gzip
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pilotlight.errors import FormatError
from pilotlight.insights.breakdown import breakdown, timeline
from pilotlight.trace.perfetto import read_perfetto
from pilotlight.trace.perfetto_writer import write_perfetto
from pilotlight.trace.trace import Kind, Trace
from pilotlight.trace.trace_file import read_file

protos = pytest.importorskip("perfetto.protos.perfetto.trace.perfetto_trace_pb2")


def packet(trace: Any, time: int | None = None, sequence: int = 1) -> Any:
    made = trace.packet.add()
    made.trusted_packet_sequence_id = sequence
    if time is not None:
        made.timestamp = time
    return made


def event(trace: Any, time: int, kind: int, track: int, name: str = "", **more: Any) -> Any:
    made = packet(trace, time).track_event
    made.type, made.track_uuid = kind, track
    if name:
        made.name = name
    for key, value in more.items():
        getattr(made, key).extend(value) if isinstance(value, list) else setattr(made, key, value)
    return made


def thread(trace: Any, uuid: int, pid: int, tid: int, name: str) -> None:
    descriptor = packet(trace).track_descriptor
    descriptor.uuid = uuid
    descriptor.thread.pid, descriptor.thread.tid, descriptor.thread.thread_name = pid, tid, name


def read(trace: Any) -> Trace:
    (found,) = read_perfetto(iter([trace.SerializeToString()]), "a.pftrace")
    return found


def names(trace: Trace) -> list[str]:
    return [trace.names[n] for n in trace.spans.name]


def test_slices_nest_on_their_tracks() -> None:
    trace = protos.Trace()
    thread(trace, 7, 4711, 4712, "main")
    event(trace, 100, 1, 7, "outer", categories=["cpu_op"])
    event(trace, 110, 1, 7, "inner", categories=["cuda_runtime"])
    event(trace, 120, 2, 7)
    event(trace, 150, 2, 7)
    found = read(trace)
    assert names(found) == ["inner", "outer"]
    assert list(found.spans.duration_ns) == [10, 50]
    assert list(found.spans.kind) == [Kind.RUNTIME, Kind.OPERATOR]
    assert [(lane.process, lane.thread) for lane in found.lanes] == [("4711", "main")]


def test_interned_names_are_of_their_sequence() -> None:
    trace = protos.Trace()
    for sequence, name in ((1, "first"), (2, "second")):
        made = packet(trace, 10 * sequence, sequence)
        entry = made.interned_data.event_names.add()
        entry.iid, entry.name = 5, name
        made.track_event.type, made.track_event.name_iid = 1, 5
        made.track_event.track_uuid = sequence
        end = packet(trace, 10 * sequence + 5, sequence)
        end.track_event.type, end.track_event.track_uuid = 2, sequence
    assert sorted(names(read(trace))) == ["first", "second"]


def test_counters_and_annotations_are_kept() -> None:
    trace = protos.Trace()
    descriptor = packet(trace).track_descriptor
    descriptor.uuid, descriptor.name = 9, "loss"
    descriptor.counter.unit_multiplier = 2
    event(trace, 5, 4, 9, double_counter_value=1.5)
    made = event(trace, 10, 1, 1, "copy", categories=["gpu_memcpy"])
    for key, value in (("correlation", 77), ("bytes", 4096)):
        note = made.debug_annotations.add()
        note.name, note.uint_value = key, value
    event(trace, 20, 2, 1)
    found = read(trace)
    assert [found.names[n] for n in found.counters.name] == ["loss"]
    assert list(found.counters.value) == [3.0]
    assert (found.spans.correlation[0], found.spans.bytes[0]) == (77, 4096)


def test_flow_ids_become_arrows() -> None:
    trace = protos.Trace()
    event(trace, 10, 1, 1, "a", flow_ids=[3])
    event(trace, 20, 2, 1)
    event(trace, 30, 1, 2, "b", terminating_flow_ids=[3])
    event(trace, 40, 2, 2)
    flows = read(trace).flows
    assert (list(flows.start_ns), list(flows.end_ns)) == ([10], [30])


def test_an_incremental_clock_is_followed() -> None:
    trace = protos.Trace()
    snapshot = packet(trace).clock_snapshot
    for clock, time in ((6, 1_000_000), (64, 0)):
        made = snapshot.clocks.add()
        made.clock_id, made.timestamp = clock, time
    made.is_incremental, made.unit_multiplier_ns = True, 1000
    packet(trace).trace_packet_defaults.timestamp_clock_id = 64
    event(trace, 5, 1, 1, "a")
    event(trace, 7, 2, 1)
    found = read(trace)
    assert (found.spans.start_ns[0], found.spans.duration_ns[0]) == (1_005_000, 7_000)


def test_unbalanced_slices_are_counted() -> None:
    trace = protos.Trace()
    event(trace, 1, 2, 1)
    event(trace, 2, 1, 1, "a")
    event(trace, 3, 2, 1)
    event(trace, 4, 1, 1, "b")
    texts = [problem.text for problem in read(trace).problems]
    assert texts == ["1 ends without a begin left out", "1 begins without an end left out"]


@pytest.mark.parametrize(
    "name", ["kineto/qwen_h100.json.gz", "kineto/alexnet_critical_path.json.gz"]
)
def test_what_is_written_reads_back_the_same(shared_data: Path, tmp_path: Path, name: str) -> None:
    (trace,) = read_file(shared_data / name).traces
    trace = Trace(**{**trace.__dict__, "rank": 3})
    path = tmp_path / "a.pftrace"
    write_perfetto([trace], path)
    (tmp_path / "b.pftrace.gz").write_bytes(gzip.compress(path.read_bytes()))
    for file in (path, tmp_path / "b.pftrace.gz"):
        result = read_file(file)
        assert result.problems == ()
        (back,) = result.traces
        assert back.rank == 3
        assert np.array_equal(np.bincount(back.spans.kind), np.bincount(trace.spans.kind))
        for column in ("start_ns", "duration_ns", "correlation", "bytes"):
            mine, theirs = getattr(trace.spans, column), getattr(back.spans, column)
            assert np.array_equal(np.sort(mine), np.sort(theirs)), column
        assert np.array_equal(np.sort(back.counters.value), np.sort(trace.counters.value))
        rows = [breakdown(t, timeline(t)) for t in (trace, back)]
        assert rows[0].compute_ns == rows[1].compute_ns
        assert rows[0].idle_ns == rows[1].idle_ns


def whole() -> bytes:
    trace = protos.Trace()
    thread(trace, 7, 1, 2, "main")
    event(trace, 100, 1, 7, "a", flow_ids=[1])
    event(trace, 120, 2, 7)
    return bytes(trace.SerializeToString())


@given(st.integers(0, 10_000), st.integers(0, 255), st.booleans(), st.integers(1, 64))
def test_damaged_traces_are_read_or_refused(
    place: int, byte: int, cut: bool, block_bytes: int
) -> None:
    content = bytearray(whole())
    content[place % len(content)] = byte
    if cut:
        del content[place % len(content) :]
    blocks = (bytes(content[i : i + block_bytes]) for i in range(0, len(content), block_bytes))
    try:
        read_perfetto(blocks, "a.pftrace")
    except FormatError as error:
        assert str(error).startswith("a.pftrace: ")


def test_a_cut_file_keeps_what_came_before(tmp_path: Path) -> None:
    path = tmp_path / "a.pftrace"
    path.write_bytes(whole() + whole()[:30])
    result = read_file(path)
    assert len(result.traces) == 1
    assert "ends inside a packet" in str(result.problems[0])
