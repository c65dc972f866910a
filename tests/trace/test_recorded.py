from __future__ import annotations

from pathlib import Path

import example

from pilotlight.insights.breakdown import breakdown, timeline
from pilotlight.trace.detail import Message
from pilotlight.trace.reader import read_traces
from pilotlight.trace.recorded import is_recording
from pilotlight.trace.trace import Kind


def test_a_recording_is_read_as_a_trace(tmp_path: Path) -> None:
    process = example.Process(0)
    process.add("threads", 100, process.name("main"))
    process.add("spans", 100, process.name("forward"), 1, 0, 2_000, 500)
    process.add("spans", 100, 0, 2, 0, 3_000, 400)
    process.add("counters", 100, process.name("loss"), 2_500, 0.5)
    for step in range(3):
        process.add("steps", 100, step, 1_000 * step, 900)
    folder = example.write_example(tmp_path / "recording", process)
    assert is_recording(folder)
    found = read_traces([folder])
    assert found.problems == ()
    (trace,) = found.traces
    assert [trace.names[n] for n in trace.spans.name] == ["forward", "Python GC"]
    assert list(trace.spans.kind) == [Kind.ANNOTATION, Kind.GC]
    assert list(trace.steps.number) == [0, 1, 2]
    assert [trace.names[n] for n in trace.counters.name] == ["loss"]
    assert list(trace.counters.value) == [0.5]


def test_work_of_devices_is_read_with_its_launches_and_collectives(tmp_path: Path) -> None:
    process = example.Process(0)
    name = process.name
    process.add("tracks", 3, name("stream 7"), 1, 2, 7)
    process.add("launches", 100, name("cudaLaunchKernel"), 1, 0, 1_000, 50, 9, 0)
    process.add("activities", 100, name("gemm"), 3, 1, 0, 1_200, 500, 9, -1, 0, 0, 0)
    process.add("activities", 100, name("HtoD"), 3, 2, 0, 1_800, 100, 10, 4096, 0, 0, 0)
    process.add("activities", 0, name("lost track"), 77, 1, 0, 2_000, 100, 0, -1, 0, 0, 0)
    process.add(
        "collectives", 100, name("all_reduce"), name("dp"), name("float"), 3, 8, 0, 3_000, 400,
        100, 1 << 20, 5, 11,
    )  # fmt: skip
    (trace,) = read_traces([example.write_example(tmp_path / "recording", process)]).traces
    kernels = trace.of_kind(Kind.KERNEL)
    assert [trace.names[n] for n in kernels.name] == ["gemm", "lost track"]
    lane = trace.lanes[kernels.lane[0]]
    assert (lane.process, lane.thread, lane.name) == ("GPU 2", "7", "stream 7")
    assert list(kernels.correlation) == [9, -1]
    assert list(trace.of_kind(Kind.RUNTIME).correlation) == [9]
    assert list(trace.of_kind(Kind.MEMCPY).bytes) == [4096]
    assert [trace.names[n] for n in trace.of_kind(Kind.ANNOTATION).name] == ["all_reduce"]
    assert trace.detail.messages.kinds == (Message("all_reduce", "dp", 8, 1 << 20),)
    row = breakdown(trace, timeline(trace))
    assert row.compute_ns == 600


def test_idle_with_an_operation_of_a_group_in_flight_waits_for_communication(
    tmp_path: Path,
) -> None:
    """ns: gemm 1,200-1,700, all_reduce in flight 1,900-2,300, gemm 2,500-2,600."""
    process = example.Process(0)
    name = process.name
    process.add("tracks", 3, name("stream 7"), 1, 2, 7)
    for start_ns, duration_ns, number in ((1_200, 500, 9), (2_500, 100, 10)):
        row = (name("gemm"), 3, 1, 0, start_ns, duration_ns, number, -1, 0, 0, 0)
        process.add("activities", 100, *row)
    process.add(
        "collectives", 100, name("all_reduce"), name("dp"), name("float"), 3, 8, 0, 1_900, 400,
        100, 1 << 20, 5, 11,
    )  # fmt: skip
    (trace,) = read_traces([example.write_example(tmp_path / "recording", process)]).traces
    row = breakdown(trace, timeline(trace))
    assert (row.idle_ns, row.idle_by_cause_ns["communication wait"]) == (800, 400)


def test_kinds_of_ranges_are_kinds_of_spans(tmp_path: Path) -> None:
    process = example.Process(0)
    for kind in (1, 5, 10):
        process.add("spans", 100, process.name(f"kind {kind}"), kind, 0, 1_000 * kind, 5)
    (trace,) = read_traces([example.write_example(tmp_path / "recording", process)]).traces
    assert list(trace.spans.kind) == [Kind.ANNOTATION, Kind.OPERATOR, Kind.RUNTIME]


def test_a_recording_of_nothing_is_one_problem(tmp_path: Path) -> None:
    found = read_traces([example.write_example(tmp_path / "recording")])
    assert "without spans" in str(found.problems[0])


def test_a_damaged_manifest_is_one_problem(tmp_path: Path) -> None:
    (tmp_path / "manifest.json").write_text("{")
    found = read_traces([tmp_path])
    assert found.traces == ()
    (problem,) = found.problems
    assert str(tmp_path) in str(problem)


def test_transfers_know_their_partner_where_its_process_is_recorded_too(tmp_path: Path) -> None:
    """Places in the group are not ranks: here they are the other way round."""
    sender, receiver = example.Process(0), example.Process(1)
    for process, name, place in (
        (sender, "Send to 0", 1),
        (sender, "Send to 2", 1),
        (receiver, "Recv from 1", 0),
    ):
        words = (process.name(name), process.name("pp"), 0)
        process.add("collectives", 100, *words, place, 3, 0, 3_000, 400, 0, 64, 5, 11)
    folder = example.write_example(tmp_path / "recording", sender, receiver)
    partners = [
        {message.operation: message.partner for message in trace.detail.messages.kinds}
        for trace in read_traces([folder]).traces
    ]
    assert partners == [{"Send to 0": 1, "Send to 2": -1}, {"Recv from 1": 0}]
