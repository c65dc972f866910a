"""What Perfetto's own trace processor makes of what we write."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from job import EVIL, write_job
from tests.trace_processor import TraceProcessor

from pilotlight.export.chrome import write_chrome
from pilotlight.export.perfetto import write_perfetto as export_perfetto
from pilotlight.recording.recording import Recording
from pilotlight.trace.kineto import read_kineto
from pilotlight.trace.kineto_writer import write_kineto
from pilotlight.trace.perfetto_writer import write_perfetto
from pilotlight.trace.trace import Trace
from pilotlight.trace.trace_file import read_file

Open = Callable[[Path], TraceProcessor]
SHARED = Path(__file__).parents[2].parent / "shared" / "data"
# One call that starts a kernel, and one that starts a graph of two.
LAUNCHES = [
    ("cpu_op", "aten::mm", 1, 1, 10, 50, {}),
    ("cuda_runtime", "cudaLaunchKernel", 1, 1, 20, 5, {"correlation": 7}),
    ("cuda_runtime", "cudaGraphLaunch", 1, 1, 30, 5, {"correlation": 8}),
    ("kernel", "gemm", 0, 7, 40, 30, {"correlation": 7, "device": 0, "stream": 7}),
    ("kernel", "first", 0, 7, 70, 10, {"correlation": 8, "device": 0, "stream": 7}),
    ("kernel", "second", 0, 7, 80, 10, {"correlation": 8, "device": 0, "stream": 7}),
]
ARROWS = """
    SELECT source.name, target.name FROM flow
    JOIN slice source ON source.id = slice_out JOIN slice target ON target.id = slice_in
    ORDER BY 1"""


@pytest.fixture
def opened() -> Iterator[Open]:
    processors: list[TraceProcessor] = []

    def open_trace(path: Path) -> TraceProcessor:
        processors.append(TraceProcessor(path))
        return processors[-1]

    yield open_trace
    for processor in processors:
        processor.close()


@pytest.mark.parametrize("write", [export_perfetto, write_chrome])
def test_an_exported_recording_is_read_without_a_fault(
    tmp_path: Path, opened: Open, write: Callable[..., object]
) -> None:
    path = tmp_path / "exported"
    with path.open("wb") as file:
        write(Recording.open(write_job(tmp_path / "recording")), file)
    trace = opened(path)
    assert trace.faults() == []
    slices = trace.query("SELECT name, dur, count(*) FROM slice WHERE dur > 0 GROUP BY 1, 2")
    assert {("forward", 600, 6), (EVIL, 200, 6), ("overlap", 900, 2)} < set(slices)
    inside = "SELECT p.name, s.name FROM slice s JOIN slice p ON p.id = s.parent_id"
    assert set(trace.query(f"{inside} WHERE s.dur = 200")) == {("forward", EVIL)}
    values = "SELECT value FROM counter JOIN track t ON t.id = track_id WHERE t.name GLOB 'loss*'"
    assert sorted(value for (value,) in trace.query(values)) == [-1.5, -1.5, -0.5, -0.5, 0.5, 0.5]
    threads = "SELECT process.name, thread.name FROM thread JOIN process USING (upid)"
    assert {("rank 0", "MainThread"), ("rank 1", "loader")} <= set(trace.query(threads))


def converted(trace: Trace, path: Path) -> Path:
    if path.suffix == ".json":
        write_kineto(trace, path)
    else:
        write_perfetto([trace], path)
    return path


@pytest.mark.parametrize("suffix", [".json", ".pftrace"])
def test_a_converted_trace_keeps_slices_and_has_an_arrow_from_each_call(
    tmp_path: Path, opened: Open, suffix: str
) -> None:
    events = [
        {"ph": "X", "cat": kind, "name": name, "pid": pid, "tid": tid, "ts": start, "dur": length,
         "args": args}
        for kind, name, pid, tid, start, length, args in LAUNCHES
    ]  # fmt: skip
    trace = read_kineto(iter([json.dumps({"traceEvents": events}).encode()]), "a.json")
    processor = opened(converted(trace, tmp_path / f"converted{suffix}"))
    assert processor.faults() == []
    expected = sorted(
        (name, 1000 * start, 1000 * length) for _, name, _, _, start, length, _ in LAUNCHES
    )
    assert processor.query("SELECT name, ts, dur FROM slice ORDER BY 1") == expected
    assert processor.query(ARROWS) == [("cudaGraphLaunch", "first"), ("cudaLaunchKernel", "gemm")]


@pytest.mark.parametrize("suffix", [".json", ".pftrace"])
@pytest.mark.parametrize("name", ["qwen_h100", "resnet50_workers0"])
def test_a_real_trace_has_the_same_arrows_and_times_after_its_conversion(
    tmp_path: Path, opened: Open, name: str, suffix: str
) -> None:
    if not SHARED.is_dir():
        pytest.skip("the folder of real traces, ../shared/data, is absent")
    source = SHARED / "kineto" / f"{name}.json.gz"
    original = tmp_path / "original.json"
    original.write_bytes(gzip.decompress(source.read_bytes()))
    (trace,) = read_file(source).traces
    path = converted(trace, tmp_path / f"converted{suffix}")
    kernels = """
        SELECT name, ts - min(ts) OVER (), dur FROM slice
        WHERE lower(category) = 'kernel' ORDER BY 2, 1"""
    before, after = opened(original), opened(path)
    assert after.query("SELECT count(*) FROM flow") == before.query("SELECT count(*) FROM flow")
    assert after.query(kernels) == before.query(kernels)
