"""Parquet files that `convert` writes are read back; others are refused in one line."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pilotlight.trace.kineto import read_kineto
from pilotlight.trace.parquet_writer import write_parquet
from pilotlight.trace.trace import Trace
from pilotlight.trace.trace_file import read_file

pytest.importorskip("pyarrow.parquet")


def trace_of(rank: int) -> Trace:
    events: list[dict[str, Any]] = [
        {"ph": "M", "name": "thread_name", "pid": 1, "tid": 1, "args": {"name": "main"}},
        *(
            {"ph": "X", "cat": "user_annotation", "name": f"ProfilerStep#{i}", "pid": 1, "tid": 1,
             "ts": 100 * i, "dur": 90}
            for i in range(1, 4)
        ),
        {"ph": "X", "cat": "cuda_runtime", "name": "cudaLaunchKernel", "pid": 1, "tid": 1,
         "ts": 110, "dur": 3, "args": {"correlation": 9}},
        {"ph": "X", "cat": "kernel", "name": "gemm é", "pid": 0, "tid": 7, "ts": 120.125, "dur": 50,
         "args": {"correlation": 9}},
        {"ph": "X", "cat": "gpu_memcpy", "name": "Memcpy HtoD", "pid": 0, "tid": 7, "ts": 180,
         "dur": 4, "args": {"bytes": 4096}},
        {"ph": "C", "name": "loss", "ts": 130, "args": {"value": 0.5}},
    ]  # fmt: skip
    document = {
        "distributedInfo": {"rank": rank, "world_size": 2},
        "deviceProperties": [{"id": 0, "name": "NVIDIA H100 80GB HBM3"}],
        "traceEvents": events,
    }
    return read_kineto(iter([json.dumps(document).encode()]), "a.json")


def test_what_was_written_is_read_back(tmp_path: Path) -> None:
    written = (trace_of(0), trace_of(1))
    write_parquet(written, tmp_path / "a.parquet")
    found = read_file(tmp_path / "a.parquet")
    assert found.problems == ()
    assert [trace.rank for trace in found.traces] == [0, 1]
    for before, after in zip(written, found.traces, strict=True):
        assert (after.world_size, after.devices) == (before.world_size, before.devices)
        for column in ("start_ns", "duration_ns", "kind", "correlation", "bytes"):
            assert (getattr(after.spans, column) == getattr(before.spans, column)).all(), column
        for one, other in ((before, after), (after, before)):
            assert [one.names[i] for i in one.spans.name] == [
                other.names[i] for i in other.spans.name
            ]
        assert [after.lanes[i] for i in after.spans.lane] == [
            before.lanes[i] for i in before.spans.lane
        ]
        assert (after.counters.value == before.counters.value).all()
        for column in ("number", "start_ns", "duration_ns"):
            assert (getattr(after.steps, column) == getattr(before.steps, column)).all()


def test_a_trace_without_spans_is_a_file_too(tmp_path: Path) -> None:
    trace = trace_of(0)
    write_parquet(
        [replace(trace, spans=trace.spans.take(np.array([], np.int64)))], tmp_path / "a.parquet"
    )
    (found,) = read_file(tmp_path / "a.parquet").traces
    assert len(found.spans) == 0 and found.counters.value.tolist() == [0.5]


def refused(path: Path) -> str:
    found = read_file(path)
    assert found.traces == ()
    (problem,) = found.problems
    assert str(problem).startswith(str(path)) and "\n" not in str(problem)
    return str(problem)


def test_other_and_damaged_files_are_refused(tmp_path: Path) -> None:
    import pyarrow
    import pyarrow.parquet

    path = tmp_path / "a.parquet"
    pyarrow.parquet.write_table(pyarrow.table({"a": [1]}), path)
    assert "no column rank" in refused(path)
    pyarrow.parquet.write_table(pyarrow.table({"optype": ["x"], "start_ts": [1.0]}), path)
    assert "pilotlight whatif" in refused(path)
    write_parquet([trace_of(0)], path)
    whole = path.read_bytes()
    path.write_bytes(whole[: len(whole) // 2])
    assert "damaged" in refused(path)
    random = np.random.default_rng(7)
    for _ in range(200):
        broken = bytearray(whole)
        for place in random.integers(4, len(whole) - 4, 6):
            broken[place] ^= int(random.integers(1, 256))
        path.write_bytes(bytes(broken))
        found = read_file(path)
        assert found.traces or found.problems


def test_rows_out_of_nothing_are_refused(tmp_path: Path) -> None:
    """A billion equal rows take a few kilobytes."""
    import pyarrow
    import pyarrow.parquet

    write_parquet([trace_of(0)], tmp_path / "small.parquet")
    one = pyarrow.parquet.read_table(tmp_path / "small.parquet").slice(0, 1)
    path = tmp_path / "bomb.parquet"
    many = one.take([0] * 8_000_000)
    pyarrow.parquet.write_table(many, path, compression="zstd")
    assert "expands more than 400-fold" in refused(path)
