from __future__ import annotations

import json
from pathlib import Path

import pytest

from pilotlight.insights.breakdown import breakdown, timeline
from pilotlight.trace.kineto import read_kineto
from pilotlight.trace.kineto_writer import kineto_text, write_kineto
from pilotlight.trace.perfetto_writer import write_perfetto
from pilotlight.trace.trace import Kind, Trace
from pilotlight.trace.trace_file import read_file


def parts(trace: Trace) -> tuple[object, ...]:
    line = timeline(trace)
    assert line is not None
    row = breakdown(trace, line)
    return row.window_ns, row.compute_ns, row.idle_ns, row.idle_by_cause_ns


def same_detail(back: Trace, trace: Trace) -> None:
    """Shapes and types of operators, grids of kernels, messages of collectives."""
    assert back.detail.operators.kinds == trace.detail.operators.kinds
    assert (back.detail.operators.start_ns == trace.detail.operators.start_ns).all()
    for column in ("correlation", "blocks", "threads", "along"):
        mine, theirs = (getattr(each.detail.grids, column) for each in (trace, back))
        assert sorted(mine.tolist()) == sorted(theirs.tolist()), column
    assert back.detail.messages.kinds == trace.detail.messages.kinds


def test_shapes_grids_and_messages_survive_all_writers(tmp_path: Path) -> None:
    told = {
        "correlation": 5, "grid": [8, 4, 1], "block": [128, 1, 1], "Group size": 2,
        "Collective name": "allreduce", "Process Group Name": "dp", "dtype": "Float",
        "In msg nelems": 1000, "Out msg nelems": 1000, "est. achieved occupancy %": 12.5,
    }  # fmt: skip
    shapes = {"Input Dims": [[4, 8], [8, 2], []], "Input type": ["float", "float", "Scalar"]}
    host = {"ph": "X", "pid": 9, "tid": 9}
    events = [
        {**host, "cat": "cpu_op", "name": "aten::mm", "ts": 0, "dur": 10, "args": shapes},
        {**host, "cat": "cuda_runtime", "name": "cudaLaunchKernel", "ts": 2, "dur": 3,
         "args": {"correlation": 5}},
        {"ph": "X", "pid": 0, "tid": 7, "cat": "kernel", "name": "ncclDevKernel_AllReduce",
         "ts": 9, "dur": 20, "args": told},
    ]  # fmt: skip
    trace = read_kineto(iter([json.dumps(events).encode()]), "a.json")
    write_kineto(trace, tmp_path / "a.json")
    write_perfetto([trace], tmp_path / "a.pftrace")
    for name in ("a.json", "a.pftrace"):
        (back,) = read_file(tmp_path / name).traces
        same_detail(back, trace)
        assert set(back.arguments) == set(trace.arguments)
        write_kineto(back, tmp_path / "again.json")
        (again,) = read_file(tmp_path / "again.json").traces
        same_detail(again, trace)
    assert len(trace.of_kind(Kind.KERNEL)) == 1


@pytest.mark.parametrize(
    "name",
    [
        "kineto/resnet50_workers4.json.gz",
        "kineto/qwen_h100.json.gz",
        "kineto/sglang_qwen3_decode.json.gz",
        "nsys/mfu_2gpu_before.sqlite",
    ],
)
def test_what_is_written_reads_back_the_same(shared_data: Path, tmp_path: Path, name: str) -> None:
    trace = read_file(shared_data / name).traces[0]
    for file in ("a.json", "a.json.gz"):
        write_kineto(trace, tmp_path / file)
        result = read_file(tmp_path / file)
        assert result.problems == ()
        (back,) = result.traces
        assert len(back.spans) == len(trace.spans)
        assert (back.spans.duration_ns == trace.spans.duration_ns).all()
        assert len(back.steps) == len(trace.steps)
        assert len(back.counters.value) == len(trace.counters.value)
        assert parts(back) == parts(trace)
        same_detail(back, trace)


def test_absolute_times_are_exact_to_the_nanosecond(shared_data: Path) -> None:
    trace = read_file(shared_data / "kineto" / "qwen_h100.json.gz").traces[0]
    text = "".join(kineto_text(trace)).encode()
    back = read_kineto(iter([text]), "a.json")
    assert (back.spans.start_ns == trace.spans.start_ns).all()
