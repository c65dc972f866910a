"""Traces in which things take no time, or in which nothing is where it belongs."""

from __future__ import annotations

import json
import warnings
from pathlib import Path
from typing import Any

from pilotlight.analysis import Analysis, analyze


def analyzed(folder: Path, *ranks: list[dict[str, Any]]) -> Analysis:
    """Without a warning, and with all of its tables and the page."""
    for rank, events in enumerate(ranks):
        info = {"rank": rank, "world_size": len(ranks)}
        text = json.dumps({"distributedInfo": info, "traceEvents": events})
        (folder / f"rank{rank}.json").write_text(text)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = analyze(folder)
        found.to_dict()
        found.to_html()
    return found


def span(category: str, name: str, start: float, duration: float, number: int = 0) -> Any:
    lane = {"pid": 0, "tid": 7} if category == "kernel" else {"pid": 9, "tid": 9}
    args = {"correlation": number} if number else {}
    return {"ph": "X", "cat": category, "name": name, "ts": start, "dur": duration, **lane,
            "args": args}  # fmt: skip


def step(number: int, start: float, duration: float) -> Any:
    return span("user_annotation", f"ProfilerStep#{number}", start, duration)


def test_steps_that_take_no_time_are_none(tmp_path: Path) -> None:
    events = [span("kernel", "gemm", 10, 50), *(step(i, 20 * i, 0) for i in range(4))]
    found = analyzed(tmp_path, events)
    assert found.job.step_count == 0
    assert not len(found.job.traces[0].steps)


def test_steps_without_device_activity_have_no_critical_path(tmp_path: Path) -> None:
    events = [span("kernel", "gemm", 10, 50), *(step(i, 1000 + 100 * i, 90) for i in range(3))]
    found = analyzed(tmp_path, events)
    assert found.table("critical_path") == []
    assert found.job.step_count == 3


def test_a_rank_that_computes_in_no_step_is_compared_without_a_warning(tmp_path: Path) -> None:
    def rank(compute: float) -> list[dict[str, Any]]:
        events = [step(i, 1000 * i, 1000) for i in range(8)]
        for i in range(8):
            events.append(span("kernel", "ncclDevKernel_AllReduce", 1000 * i + 600, 100))
            if compute:
                events.append(span("kernel", "gemm", 1000 * i + 10, compute))
        return events

    assert analyzed(tmp_path, rank(500), rank(480), rank(0)).job.step_count == 8


def test_a_call_that_takes_no_time_is_its_own_begin(tmp_path: Path) -> None:
    events = [
        span("cuda_runtime", "cudaLaunchKernel", 10, 0, 1),
        span("kernel", "gemm", 20, 50, 1),
        {**span("cuda_runtime", "cudaStreamSynchronize", 12, 70), "tid": 10},
    ]
    assert analyzed(tmp_path, events).job.ranks[0].whole.compute_ns == 50_000
