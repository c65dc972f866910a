"""Calls that wait for the device without a name that says so. Times are in microseconds."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from pilotlight.insights.catalogue import diagnose
from pilotlight.insights.critical_path import by_role, critical_path
from pilotlight.insights.idle_time import Idle
from pilotlight.insights.job import Job, job_of
from pilotlight.insights.recorded_graph import RecordedGraph, Role, recorded_graph
from pilotlight.trace.kineto import read_kineto

Event = dict[str, Any]
TO_PAGEABLE = "Memcpy DtoH (Device -> Pageable)"
TO_PINNED = "Memcpy DtoH (Device -> Pinned)"
FROM_PAGEABLE = "Memcpy HtoD (Pageable -> Device)"


def span(kind: str, name: str, begin: float, end: float, correlation: int = 0) -> Event:
    lane = {"pid": 0, "tid": 7} if kind in ("kernel", "gpu_memcpy") else {"pid": 9, "tid": 9}
    args = {"correlation": correlation} if correlation else {}
    event = {"ph": "X", "cat": kind, "name": name, "ts": begin, "dur": end - begin}
    return {**event, **lane, "args": args}


def job_with(events: Sequence[Event]) -> Job:
    return job_of([read_kineto(iter([json.dumps({"traceEvents": list(events)}).encode()]), "t")])


def fetched(
    call: str, call_end: float, copy: str, first: float = 0, number: int = 1
) -> list[Event]:
    """k 10-110, its result 110-112; the host goes on 40 after that call has returned."""
    call_end, launch = first + call_end, first + call_end + 40
    return [
        span("cuda_runtime", "cudaLaunchKernel", first, first + 5, number),
        span("kernel", "k", first + 10, first + 110, number),
        span("cuda_runtime", call, first + 5, call_end, number + 1),
        span("gpu_memcpy", copy, first + 110, first + 112, number + 1),
        span("cuda_runtime", "cudaLaunchKernel", launch, launch + 5, number + 2),
        span("kernel", "k", max(launch + 7, first + 112), max(launch + 7, first + 112) + 100,
             number + 2),
    ]  # fmt: skip


def with_faster_kernels_ns(graph: RecordedGraph, factor: float) -> float:
    return graph.total_ns(graph.duration_ns * np.where(graph.role == Role.KERNEL, factor, 1.0))


@pytest.mark.parametrize("call", ["cudaMemcpyAsync", "hipMemcpyWithStream", "cudaMemcpy"])
def test_a_call_that_returns_with_its_copy_waits_for_the_kernels_before(call: str) -> None:
    graph = recorded_graph(job_with(fetched(call, 125, TO_PAGEABLE)))
    assert graph.total_ns(graph.duration_ns) == 272_000
    assert with_faster_kernels_ns(graph, 0.5) == 172_000
    path = by_role(critical_path(graph))
    assert path["kernel"] == pytest.approx(200 / 272)


def test_the_gap_after_such_a_call_is_synchronisation() -> None:
    (view,) = job_with(fetched("cudaMemcpyAsync", 125, TO_PAGEABLE)).ranks
    assert view.whole.idle_by_cause_ns[Idle.SYNC.value] == 60_000
    assert view.whole.idle_by_cause_ns[Idle.HOST.value] == 0


def test_a_gap_within_such_a_call_before_work_that_was_launched_is_the_queues() -> None:
    events = [
        span("cuda_runtime", "cudaLaunchKernel", 0, 5, 1),
        span("kernel", "k", 10, 110, 1),
        span("cuda_runtime", "cudaLaunchKernel", 5, 10, 2),
        span("kernel", "waits for another stream", 210, 310, 2),
        span("cuda_runtime", "cudaMemcpyAsync", 10, 325, 3),
        span("gpu_memcpy", TO_PAGEABLE, 310, 312, 3),
    ]
    (view,) = job_with(events).ranks
    assert view.whole.idle_by_cause_ns[Idle.QUEUED.value] == 100_000
    assert view.whole.idle_by_cause_ns[Idle.SYNC.value] == 0


def test_without_the_wait_the_host_runs_ahead() -> None:
    graph = recorded_graph(job_with(fetched("cudaMemcpyAsync", 125, TO_PAGEABLE)))
    # What the call takes after its copy, 13, stays: host 5 + 13 + 40 + 5; the second kernel begins
    # when the copy has ended, at 112.
    free = graph.without_waits("sync")
    assert free.total_ns(free.duration_ns) == 212_000


def test_a_call_that_does_not_wait_for_its_copy_is_the_hosts_own() -> None:
    events = fetched("cudaMemcpyAsync", 10, TO_PINNED)
    graph = recorded_graph(job_with(events))
    assert not graph.waits("sync").any()
    (view,) = job_with(events).ranks
    assert view.whole.idle_by_cause_ns[Idle.SYNC.value] == 0


def test_a_copy_from_pageable_memory_takes_the_host_but_is_no_synchronisation() -> None:
    events = [
        span("cuda_runtime", "cudaLaunchKernel", 0, 5, 1),
        span("kernel", "k", 10, 110, 1),
        span("cuda_runtime", "cudaMemcpyAsync", 5, 200, 2),
        span("gpu_memcpy", FROM_PAGEABLE, 112, 230, 2),
        span("cuda_runtime", "cudaLaunchKernel", 240, 245, 3),
        span("kernel", "k", 250, 350, 3),
    ]
    graph = recorded_graph(job_with(events))
    assert graph.total_ns(graph.duration_ns) == 350_000
    assert with_faster_kernels_ns(graph, 0.5) == 250_000
    assert not graph.waits("sync").any()


def test_a_wait_after_the_last_of_the_device_is_no_error_of_the_replay() -> None:
    events = fetched("cudaMemcpyAsync", 125, TO_PAGEABLE)
    events += [span("cuda_runtime", "cudaDeviceSynchronize", 180, 300)]
    graph = recorded_graph(job_with(events))
    assert graph.measured_ns == graph.total_ns(graph.duration_ns) == 300_000


def test_a_launch_into_a_full_queue_waits_for_the_device() -> None:
    count, ahead = 1500, 1020
    events, host = [], 0
    for i in range(count):
        begin, end = 10 + 50 * i, 60 + 50 * i
        # It returns when the kernel that was launched `ahead` calls before has ended.
        returned = max(host + 5, 60 + 50 * (i - ahead))
        events += [
            span("cuda_runtime", "cudaLaunchKernel", host, returned, i + 1),
            span("kernel", "k", begin, end, i + 1),
        ]
        host = returned
    events += [span("cuda_runtime", "cudaDeviceSynchronize", host, 10 + 50 * count)]
    graph = recorded_graph(job_with(events))
    whole_ns = graph.total_ns(graph.duration_ns)
    assert whole_ns == 1000 * (10 + 50 * count)
    assert with_faster_kernels_ns(graph, 0.5) < 0.55 * whole_ns
    assert not graph.waits("sync")[graph.role == Role.CALL][:-1].any()


def test_asking_for_a_number_in_every_step_is_found_as_a_synchronisation_point() -> None:
    events = []
    for step in range(5):
        first, operator = 400.0 * step, "aten::_local_scalar_dense"
        events += fetched("cudaMemcpyAsync", 125, TO_PAGEABLE, first, 10 * step + 1)
        events += [
            span("user_annotation", f"ProfilerStep#{step}", first, first + 400),
            span("cpu_op", operator, first + 4, first + 130),
        ]
    first_found = diagnose(job_with(events)).findings
    sync = next(finding for finding in first_found if finding.rule == "A03")
    assert sync.place == "cudaMemcpyAsync in aten::_local_scalar_dense"


def test_the_way_of_a_launch_to_the_device_is_hidden_where_the_host_runs_ahead() -> None:
    # Each kernel of 10 is launched when the one before has ended, and reaches the device after 6.
    events = []
    for i in range(4):
        events += [
            span("cuda_runtime", "cudaLaunchKernel", 21 * i, 21 * i + 5, i + 1),
            span("kernel", "k", 21 * i + 11, 21 * i + 21, i + 1),
        ]
    graph = recorded_graph(job_with(events))
    assert graph.total_ns(graph.duration_ns) == 84_000
    host = (graph.role == Role.HOST) | (graph.role == Role.CALL)
    assert graph.total_ns(np.where(host, 0.0, graph.duration_ns)) == 6_000 + 4 * 10_000


def test_a_thread_that_waits_for_another_that_launches_goes_on_with_it() -> None:
    """The backward pass of 20 kernels is launched by a thread of its own, whose last call blocks;
    the main thread, which launched the forward pass, goes on 15 later."""
    events = []
    for i in range(20):
        events += [
            span("cuda_runtime", "cudaLaunchKernel", 10 * i, 10 * i + 5, i + 1),
            {**span("cuda_runtime", "cudaLaunchKernel", 210 + 10 * i, 215 + 10 * i, i + 31),
             "tid": 10},
        ]  # fmt: skip
        events += [
            span("kernel", "k", 10 + 100 * j, 110 + 100 * j, correlation)
            for j, correlation in ((i, i + 1), (20 + i, i + 31))
        ]
    events += [
        {**span("cuda_runtime", "cudaStreamSynchronize", 405, 4010), "tid": 10},
        span("cuda_runtime", "cudaLaunchKernel", 4025, 4030, 99),
        span("kernel", "k", 4035, 4135, 99),
    ]
    graph = recorded_graph(job_with(events))
    assert graph.total_ns(graph.duration_ns) == 4_135_000
    # 10 + 40 * 50, then 15 of the main thread, 5 of its call, 5 until it is there, and 50.
    assert with_faster_kernels_ns(graph, 0.5) == 2_010_000 + 75_000
