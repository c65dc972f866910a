from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from pilotlight.trace.reader import read_traces
from pilotlight.trace.trace import Kind, TraceSet


def rank_events(rank: int, name: str) -> list[dict[str, Any]]:
    """Two steps of a host and of its device, as a tool merges them: each rank with processes of its
    own."""
    host, device = 1000 * rank + 900, 1000 * rank
    events = [
        {"ph": "M", "name": "process_name", "pid": pid, "tid": 0, "args": {"name": text}}
        for pid, text in ((host, f"{name} - CPU"), (device, f"{name} - GPU"))
    ]
    for step in range(2):
        at = 100.0 * step + rank
        number = 10 * rank + step
        for kind, text, pid, begin, length in (
            ("user_annotation", f"ProfilerStep#{step}", host, at, 100),
            ("cuda_runtime", "cudaLaunchKernel", host, at, 5),
            ("kernel", f"gemm_{rank}", device, at + 10, 50),
        ):
            span = {"ph": "X", "cat": kind, "name": text, "pid": pid, "tid": 7}
            args = {"correlation": number} if kind != "user_annotation" else {}
            events.append(span | {"ts": begin, "dur": length, "args": args})
    return events


def read(folder: Path, events: list[dict[str, Any]]) -> TraceSet:
    path = folder / "merged.json"
    path.write_text(json.dumps({"traceEvents": events}))
    return read_traces([path])


@pytest.mark.parametrize("name", ["RANK {}", "rank_{}", "rank {} of 2"])
def test_a_file_of_all_ranks_is_a_trace_for_each(tmp_path: Path, name: str) -> None:
    events = [event for rank in (0, 1) for event in rank_events(rank, name.format(rank))]
    first, second = read(tmp_path, events).traces
    assert [first.rank, second.rank] == [0, 1]
    for trace in (first, second):
        assert trace.steps.number.tolist() == [0, 1]
        (kernel,) = set(trace.of_kind(Kind.KERNEL).name.tolist())
        assert trace.names[kernel] == f"gemm_{trace.rank}"
        assert len(trace.of_kind(Kind.RUNTIME)) == 2


def test_what_is_of_no_rank_stays_with_the_first(tmp_path: Path) -> None:
    events = [event for rank in (1, 2) for event in rank_events(rank, f"rank {rank}")]
    other = {"ph": "X", "cat": "cpu_op", "name": "watchdog", "pid": 5, "tid": 5, "ts": 1, "dur": 1}
    first, second = read(tmp_path, [*events, other, {**other, "dur": -1}]).traces
    assert (first.rank, len(first.spans), second.rank, len(second.spans)) == (1, 7, 2, 6)
    assert len(first.problems) == 1
    assert not second.problems


def test_processes_of_one_rank_are_one_trace(tmp_path: Path) -> None:
    (trace,) = read(tmp_path, rank_events(0, "rank 3")).traces
    assert len(trace.spans) == 6
