"""Programs that wait for the device in one thread and launch from another. Times are in
microseconds."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from pilotlight.insights.critical_path import by_role, critical_path
from pilotlight.insights.idle_time import Idle
from pilotlight.insights.job import Job, job_of
from pilotlight.insights.recorded_graph import RecordedGraph, Role, recorded_graph
from pilotlight.trace.kineto import read_kineto

Event = dict[str, Any]
JAX_WAIT = "$api.py:3105 block_until_ready"


def span(kind: str, name: str, begin: float, end: float, number: int = 0, thread: int = 1) -> Event:
    lane = {"pid": 0, "tid": 7} if kind == "kernel" else {"pid": 9, "tid": thread}
    args = {"correlation": number} if number else {}
    event = {"ph": "X", "cat": kind, "name": name, "ts": begin, "dur": end - begin}
    return {**event, **lane, "args": args}


def job_with(events: Sequence[Event]) -> Job:
    return job_of([read_kineto(iter([json.dumps({"traceEvents": list(events)}).encode()]), "t")])


def halved_ns(graph: RecordedGraph) -> float:
    return graph.total_ns(graph.duration_ns * np.where(graph.role == Role.KERNEL, 0.5, 1.0))


def turns(count: int, wait: str, kind: str) -> list[Event]:
    """Thread 1 launches a kernel of 1000, thread 2 waits for it and 40 later comes the next."""
    events = []
    for i in range(count):
        first = 1100.0 * i
        events += [
            span("cuda_runtime", "hipModuleLaunchKernel", first, first + 5, i + 1),
            span("kernel", "k", first + 10, first + 1010, i + 1),
            span(kind, wait, first + 20, first + 1060, thread=2),
        ]
    return events


@pytest.mark.parametrize(
    ("wait", "kind"),
    [
        (JAX_WAIT, "python_function"),
        ("PyArray::BlockUntilReady", "cpu_op"),
        ("hipDeviceSynchronize", "cuda_runtime"),
    ],
)
def test_a_thread_that_launches_waits_with_the_one_that_waits(wait: str, kind: str) -> None:
    job = job_with(turns(4, wait, kind))
    graph = recorded_graph(job)
    assert graph.total_ns(graph.duration_ns) == graph.measured_ns
    assert by_role(critical_path(graph))["kernel"] == pytest.approx(4000 / 4360, abs=0.002)
    assert halved_ns(graph) == pytest.approx(graph.measured_ns - 2_000_000, rel=0.002)
    (view,) = job.ranks
    assert view.whole.idle_by_cause_ns[Idle.SYNC.value] == 3 * 100_000
    assert view.whole.idle_by_cause_ns[Idle.HOST.value] == 0


def test_a_wait_that_returns_after_the_next_launch_did_not_hold_it_up() -> None:
    """JAX's threads launch while the program is already waiting for what they will launch."""
    events = [event for event in turns(3, JAX_WAIT, "python_function") if event["tid"] != 2]
    events.append(span("python_function", JAX_WAIT, 20, 3300, thread=2))
    (view,) = job_with(events).ranks
    assert view.whole.idle_by_cause_ns[Idle.SYNC.value] == 0
    assert view.whole.idle_by_cause_ns[Idle.HOST.value] == 2 * 100_000


def test_a_thread_at_work_of_its_own_does_not_wait_with_another() -> None:
    """A span around all that it does tells that it was never away."""
    events = turns(4, "hipDeviceSynchronize", "cuda_runtime")
    events.append(span("user_annotation", "my work", 0, 4400))
    graph = recorded_graph(job_with(events))
    assert graph.total_ns(graph.duration_ns) == graph.measured_ns
    assert by_role(critical_path(graph))["host"] > 0.7
    assert halved_ns(graph) > graph.measured_ns - 600_000


def test_threads_of_a_pool_take_up_work_as_results_come_back() -> None:
    """Each of four threads launches a kernel, waits for it, and has nothing to do until its turn
    comes again."""
    events = []
    for i in range(12):
        first, thread = 1050.0 * i, i % 4 + 1
        done = first + 1010
        events += [
            span("user_annotation", "request", first, done + 30, thread=thread),
            span("cuda_runtime", "cudaLaunchKernel", first + 1, first + 5, i + 1, thread),
            span("kernel", "k", first + 10, done, i + 1),
            span("cuda_runtime", "cudaStreamSynchronize", first + 20, done + 10, thread=thread),
        ]
    graph = recorded_graph(job_with(events))
    assert graph.total_ns(graph.duration_ns) == graph.measured_ns
    assert by_role(critical_path(graph))["kernel"] > 0.9
    assert halved_ns(graph) < 0.6 * graph.measured_ns


def test_what_came_before_the_host_was_recorded_is_the_devices() -> None:
    before = [span("kernel", "k", 1000.0 * i, 1000.0 * i + 1000) for i in range(5)]
    after = [
        span("cuda_runtime", "cudaLaunchKernel", 5010, 5015, 1),
        span("kernel", "k", 5020, 6020, 1),
    ]
    graph = recorded_graph(job_with(before + after))
    assert graph.total_ns(graph.duration_ns) == graph.measured_ns
    assert by_role(critical_path(graph))["kernel"] > 0.95
