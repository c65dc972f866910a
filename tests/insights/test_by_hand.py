"""Small jobs whose answers were computed on paper."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from pilotlight.insights.communication import (
    clocks,
    exposed_waits,
    group_communication,
    rank_communication,
)
from pilotlight.insights.critical_path import by_role, critical_path
from pilotlight.insights.job import Job, job_of
from pilotlight.insights.launches import launches
from pilotlight.insights.recorded_graph import recorded_graph
from pilotlight.insights.whatif import without
from pilotlight.trace.kineto import read_kineto
from pilotlight.trace.trace import Trace

Event = dict[str, Any]


def on_host(name: str, begin: float, end: float, correlation: int = 0, **args: Any) -> Event:
    told = {"correlation": correlation, **args} if correlation else args
    event = {"ph": "X", "cat": "cuda_runtime", "name": name, "ts": begin, "dur": end - begin}
    return {**event, "pid": 9, "tid": 9, "args": told}


def launch(begin: float, end: float, correlation: int) -> Event:
    return on_host("cudaLaunchKernel", begin, end, correlation)


def on_device(
    name: str, begin: float, end: float, correlation: int, stream: int = 7, **args: Any
) -> Event:
    event = {"ph": "X", "cat": "kernel", "name": name, "ts": begin, "dur": end - begin}
    return {**event, "pid": 0, "tid": stream, "args": {"correlation": correlation, **args}}


def trace_of(events: Sequence[Event], rank: int = 0, world_size: int = 1) -> Trace:
    told = {"rank": rank, "world_size": world_size}
    text = json.dumps({"distributedInfo": told, "traceEvents": list(events)})
    return read_kineto(iter([text.encode()]), f"rank{rank}.json")


def two_streams() -> list[Event]:
    """µs:  host     |A 0-5|B 5-10|C 10-15|  synchronize 15-102  |   |D 110-115|
    stream 7           k1 10-40 | k3 40-60                                     k4 117-147
    stream 8                    | k2 40-100 (waited for k1)"""
    return [
        launch(0, 5, 1),
        launch(5, 10, 2),
        launch(10, 15, 3),
        on_host("cudaDeviceSynchronize", 15, 102),
        launch(110, 115, 4),
        on_device("k1", 10, 40, 1),
        on_device("k3", 40, 60, 3),
        on_device("k2", 40, 100, 2, stream=8),
        on_device("k4", 117, 147, 4),
    ]


def test_the_critical_path_goes_through_the_longer_stream_and_the_host() -> None:
    """A 5, delay 5, k1 30, k2 60, the rest of the wait 2, host 8, D 5, delay 2, k4 30: 147 µs."""
    graph = recorded_graph(job_of([trace_of(two_streams())]))
    assert graph.total_ns(graph.duration_ns) == graph.measured_ns == 147_000
    parts = critical_path(graph)
    assert sum(part.total_ns for part in parts) == 147_000
    kernels = {part.name: part.total_ns for part in parts if part.role == "kernel"}
    assert kernels == {"k1": 30_000, "k2": 60_000, "k4": 30_000}
    assert {role: round(147 * ratio) for role, ratio in by_role(parts).items()} == {
        "kernel": 120, "call": 12, "host": 8, "delay": 7,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("kernel", "total_us"),
    [
        ("k1", 147 - 15),  # k2 and k3 begin with its end at 25
        ("k2", 147 - 30),  # ends at 70, k3 at 60 still before
        ("k3", 147),  # was never waited for
        ("k4", 147 - 15),
    ],
)
def test_half_a_kernel_gains_what_waited_for_it(kernel: str, total_us: float) -> None:
    graph = recorded_graph(job_of([trace_of(two_streams())]))
    number = graph.names.index(kernel)
    changed = np.where(graph.name == number, graph.duration_ns / 2, graph.duration_ns)
    assert graph.total_ns(changed) == 1000 * total_us


def test_a_stream_waited_for_one_that_goes_on_with_other_work() -> None:
    """k2 was launched at 10 and began at 41, just after k1 ended on stream 7, where k3 began at 40:
    half of k1 lets it begin 15 µs earlier."""
    events = [dict(event) for event in two_streams()]
    (k2,) = (event for event in events if event["name"] == "k2")
    k2["ts"], k2["dur"] = 41, 59
    graph = recorded_graph(job_of([trace_of(events)]))
    is_k1 = graph.name == graph.names.index("k1")
    changed = np.where(is_k1, graph.duration_ns / 2, graph.duration_ns)
    assert graph.total_ns(changed) == 147_000 - 15_000


def test_the_queue_holds_what_was_launched_and_has_not_ended() -> None:
    """At 0 one. At 5 two, k1 and k2. At 10 three. At 110 all have ended: k4 alone. Issue latency:
    10 - 5, 40 - 10, 40 - 15, 117 - 115; void: 100-117 of the 10-147 in which the device works."""
    (view,) = job_of([trace_of(two_streams())]).ranks
    found = launches(view)
    assert (found.launched, found.longest_queue) == (4, 3)
    assert found.median_queue_length == 1.5  # of 1, 2, 3, 1
    assert found.median_issue_ns == 15_000  # of 5, 30, 25, 2
    assert found.void_ratio == pytest.approx(17 / 137)


def together(operation: str, elements: int, size: int) -> Event:
    return {
        "Collective name": operation,
        "Group size": size,
        "dtype": "Float",
        "In msg nelems": elements,
        "Out msg nelems": elements,
        "Process Group Name": "dp",
    }


def pair(ahead_us: float = 0) -> Job:
    """µs:  rank 0   forward 10-60    |all-reduce 60 - - - - 200|, on another stream hidden 100-130
    rank 1   forward 10-150             |all-reduce 150-200|, its clock is ahead"""
    told = together("allreduce", 1_000_000, 2)
    first = [
        launch(0, 5, 1),
        launch(5, 10, 2),
        launch(10, 15, 3),
        on_device("forward", 10, 60, 1),
        on_device("ncclDevKernel_AllReduce", 60, 200, 2, **told),
        on_device("hidden", 100, 130, 3, stream=8),
    ]
    second = [
        launch(0, 5, 1),
        launch(5, 10, 2),
        on_device("forward", 10, 150, 1),
        on_device("ncclDevKernel_AllReduce", 150, 200, 2, **told),
    ]
    for event in second:
        event["ts"] += ahead_us
    return job_of([trace_of(first, 0, 2), trace_of(second, 1, 2)])


def test_waiting_for_the_last_rank_and_transfer_are_apart() -> None:
    """Rank 1 comes at 150: rank 0 waits 60-150, 30 of them computing; both transfer for 50."""
    first, second = rank_communication(pair())
    assert (first.waiting_ns, first.transfer_ns) == (90_000, 50_000)
    assert (first.exposed_waiting_ns, first.exposed_transfer_ns) == (60_000, 50_000)
    assert (second.waiting_ns, second.transfer_ns) == (0, 50_000)
    assert [exposed_waits(pair(), column, "ranks") for column in (0, 1)] == [[60_000], [0]]


def test_without_the_wait_for_ranks_the_host_goes_on_at_once() -> None:
    """µs: a launched 0-5, runs 10-40; a barrier holds the host 5-305; b launched 305-310, runs
    315-345. Without the wait b is launched 5-10, reaches the device at 15 and begins when a has
    ended, at 40: 70 in all."""
    events = [
        launch(0, 5, 1),
        {**on_host("c10d::barrier", 5, 305), "cat": "cpu_op"},
        launch(305, 310, 2),
        on_device("a", 10, 40, 1),
        on_device("b", 315, 345, 2),
    ]
    graph = recorded_graph(job_of([trace_of(events)]))
    assert graph.total_ns(graph.duration_ns) == 345_000
    for what in ("comm-wait", "exposed-comm"):
        assert graph.total_ns(without(graph, graph.duration_ns, what)) == 70_000


def test_the_bus_carries_what_was_sent_after_the_last_rank_came() -> None:
    """4 MB in 50 µs are 80 GB/s; an all-reduce of two sends each byte 2 (2 - 1) / 2 times."""
    (row,) = group_communication(pair())
    assert (row.bytes, row.median_transfer_ns, row.median_skew_ns) == (4_000_000, 50_000, 90_000)
    assert row.bus_gb_per_s == pytest.approx(80)


@pytest.mark.parametrize(
    ("operation", "gb_per_s"),
    [  # 4 MB in 50 µs among four: times 2 · 3/4, 3/4, 3/4, 3/4, 1
        ("allreduce", 120),
        ("allgather", 60),
        ("reduce_scatter", 60),
        ("all_to_all", 60),
        ("broadcast", 80),
    ],
)
def test_the_bus_carries_more_or_less_than_the_message(operation: str, gb_per_s: float) -> None:
    told = together(operation, 1_000_000, 4)
    events = [launch(5, 10, 2), on_device("ncclDevKernel_Any", 20, 70, 2, **told)]
    (row,) = group_communication(job_of([trace_of(events, rank, 4) for rank in range(4)]))
    assert row.bus_gb_per_s == pytest.approx(gb_per_s)


def test_the_critical_path_crosses_to_the_rank_that_came_last() -> None:
    """Launch 5, delay 5, forward of rank 1 140, transfer 50: 200 µs, none of rank 0."""
    graph = recorded_graph(pair())
    parts = critical_path(graph)
    assert graph.total_ns(graph.duration_ns) == 200_000
    assert {(part.role, part.rank): part.total_ns for part in parts} == {
        ("kernel", 1): 140_000, ("collective", None): 50_000, ("call", 1): 5_000,
        ("delay", 1): 5_000,
    }  # fmt: skip


def test_a_clock_that_is_ahead_is_found_and_changes_nothing_else() -> None:
    """Half of 300 µs each from their middle; the path is as long as without."""
    job = pair(ahead_us=300)
    first, second = clocks(job)
    assert second.ahead_ns - first.ahead_ns == 300_000
    assert first.uncertainty_ns == 0
    assert rank_communication(job) == rank_communication(pair())
    graph = recorded_graph(job)
    assert graph.total_ns(graph.duration_ns) == graph.measured_ns == 200_000
