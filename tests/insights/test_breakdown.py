from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from pilotlight.insights.breakdown import breakdown, kernel_times, step_breakdowns, timeline
from pilotlight.insights.idle_time import Idle, host_spans
from pilotlight.insights.job import job_of
from pilotlight.insights.name_signs import COMPILES, LOADS, SAVES
from pilotlight.trace.kineto import read_kineto
from pilotlight.trace.reader import read_traces
from pilotlight.trace.trace import Trace


def causes(trace: Trace) -> dict[str, float]:
    line = timeline(trace)
    assert line is not None
    return {k: v / 1000 for k, v in breakdown(trace, line).idle_by_cause_ns.items() if v}


def test_a_gap_is_the_hosts_until_the_launch_call_took_effect(script: Any) -> None:
    story = script().launch("a", 10).host("aten::add", 100).launch("b", 10, cost=5)
    # a ends at 17, the call for b returns at 110 and b starts at 112
    assert causes(story.trace()) == {Idle.HOST.value: 95}


def test_a_gap_after_the_launch_call_is_the_queues(script: Any) -> None:
    story = script().launch("a", 10).launch("b", 10)
    story.events[-1]["ts"] += 500
    assert causes(story.trace()) == {Idle.QUEUED.value: 500}


def test_idle_while_the_loader_works_is_the_loaders(script: Any) -> None:
    story = script().launch("a", 10).host("enumerate(DataLoader)#next", 100).launch("b", 10)
    assert causes(story.trace()) == {Idle.LOADER.value: 88, Idle.HOST.value: 7}


def test_idle_that_begins_in_a_blocking_call_is_synchronisation(script: Any) -> None:
    story = script().launch("a", 10).synchronize(after=50).launch("b", 10)
    # a ends at 17, the call returns at 22, b is launched at 72 and starts at 79
    assert causes(story.trace()) == {Idle.SYNC.value: 62}


def test_idle_during_a_collection_is_the_collectors(script: Any) -> None:
    story = script().launch("a", 10).host("Python GC", 100).launch("b", 10)
    assert causes(story.trace())[Idle.GC.value] == 88


def test_communication_under_compute_is_not_exposed(script: Any) -> None:
    story = script()
    story.span("kernel", "gemm", 0, 100)
    story.span("kernel", "ncclDevKernel_AllReduce", 50, 100)
    story.span("gpu_memcpy", "Memcpy HtoD (Pageable -> Device)", 140, 20)
    line = timeline(story.trace())
    assert line is not None
    row = breakdown(story.trace(), line)
    assert (row.compute_ns, row.exposed_communication_ns, row.exposed_copy_ns) == (
        100_000,
        50_000,
        10_000,
    )
    assert row.idle_ns == 0
    assert row.overlap_ratio == 0.5


def test_exposed_communication_is_divided_by_kind() -> None:
    """µs: compute 0-50, all-gather 40-100, all-reduce 90-130 and, by its message alone, another
    all-reduce 150-160: exposed are 50-100 as all-gather, 100-130 and 150-160 as all-reduce."""
    told = {"correlation": 5, "Collective name": "allreduce", "Group size": 2, "dtype": "Float"}
    events = [
        {"cat": "kernel", "name": name, "ts": begin, "dur": end - begin, "args": args}
        for name, begin, end, args in (
            ("gemm", 0, 50, {}),
            ("ncclDevKernel_AllGather_RING_LL", 40, 100, {"correlation": 3}),
            ("ncclKernel_AllReduce_RING_LL_Sum_float", 90, 130, {"correlation": 4}),
            ("ncclDevKernel_Generic", 150, 160, told),
        )
    ]
    text = json.dumps([{"ph": "X", "pid": 0, "tid": i, **event} for i, event in enumerate(events)])
    trace = read_kineto(iter([text.encode()]), "a.json")
    line = timeline(trace)
    assert line is not None
    row = breakdown(trace, line)
    assert row.exposed_communication_by_kind_ns == {"allgather": 50_000, "allreduce": 40_000}
    assert row.exposed_communication_ns == 90_000


def test_the_parts_of_every_step_add_up_to_it(shared_data: Path) -> None:
    (trace,) = read_traces([shared_data / "kineto" / "diff_control_a100.json.gz"]).traces
    line = timeline(trace)
    assert line is not None
    rows = step_breakdowns(trace, line)
    assert len(rows) == 6
    for row in rows:
        parts = row.compute_ns + row.exposed_communication_ns + row.exposed_copy_ns + row.idle_ns
        assert parts == row.window_ns
        assert sum(row.exposed_communication_by_kind_ns.values()) == row.exposed_communication_ns


def test_a_trace_without_a_device_has_no_timeline(shared_data: Path) -> None:
    (trace,) = read_traces([shared_data / "kineto" / "cpu_only.json.gz"]).traces
    assert timeline(trace) is None


def test_kernels_are_summed_by_name(script: Any) -> None:
    trace = script().launch("gemm", 10).launch("relu", 5).launch("gemm", 30).trace()
    rows = kernel_times(trace)
    assert [(row.name, row.count, row.total_ns) for row in rows] == [
        ("gemm", 2, 40_000),
        ("relu", 1, 5_000),
    ]


# By HTA 0.5 with include_last_profiler_step=True, in microseconds: idle, compute, kernel time.
@pytest.mark.parametrize(
    ("name", "idle", "compute", "window"),
    [
        ("diff_control_a100", 76007, 281336, 464594),
        ("resnet50_workers0", 392919, 591532, 996477),
    ],
)
def test_the_parts_equal_those_of_hta(
    shared_data: Path, name: str, idle: int, compute: int, window: int
) -> None:
    (trace,) = read_traces([shared_data / "kineto" / f"{name}.json.gz"]).traces
    line = timeline(trace)
    assert line is not None
    row = breakdown(trace, line)
    assert (row.idle_ns, row.compute_ns, row.window_ns) == (
        idle * 1000,
        compute * 1000,
        window * 1000,
    )


@pytest.mark.parametrize(
    ("pattern", "name"),
    [
        (LOADS, "enumerate(DataLoader)#next"),
        (LOADS, "data"),
        (LOADS, "load_batch"),
        (LOADS, "data loading"),
        (LOADS, "Fetching data"),
        (LOADS, "get_next_batch"),
        (LOADS, "wait for batch"),
        (LOADS, "batch-generator"),
        (COMPILES, "Torch-Compiled Region: dynamo_compile"),
        (COMPILES, "triton_jit"),
        (COMPILES, "nvrtcCompileProgram"),
        (SAVES, "torch.save"),
        (SAVES, "Checkpoint: step 4"),
    ],
)
def test_the_host_is_in_a_phase_while_a_span_is_named_so(
    script: Any, pattern: re.Pattern[str], name: str
) -> None:
    trace = script().launch("a", 10).host(name, 100).host("aten::add", 50).trace()
    for other in (LOADS, COMPILES, SAVES):
        expected_ns = 100_000 if other is pattern else 0
        assert host_spans(trace, other).total_ns() == expected_ns


@pytest.mark.parametrize("name", ["get_data_ptr", "batch_norm", "read_data_done", "forward_batch"])
def test_a_name_that_only_speaks_of_data_is_no_loader(script: Any, name: str) -> None:
    trace = script().launch("a", 10).host(name, 100).trace()
    assert not host_spans(trace, LOADS).total_ns()


def beside(story: Any, name: str, start: float, duration: float) -> None:
    """A span of another thread, which launches nothing."""
    story.span("user_annotation", name, start, duration)
    story.events[-1]["tid"] = 33


@pytest.mark.parametrize("name", ["load_batch", "async_save"])
def test_what_goes_on_beside_the_launches_holds_no_device_up(script: Any, name: str) -> None:
    story = script()
    for _ in range(10):
        story.host("aten::mul", 100).launch("a", 10)
    beside(story, name, 0, story.host_us)
    found = causes(story.trace())
    assert set(found) == {Idle.HOST.value}


def test_a_host_that_waits_for_a_thread_of_the_loader_waits_for_the_loader(script: Any) -> None:
    """a and b are launched while it loads; then nothing is until it is done, at 500."""
    story = script().launch("a", 10).launch("b", 10)
    story.host_us = 500
    beside(story, "load_batch", 2, 498)
    story.launch("c", 10)
    assert causes(story.trace()) == {Idle.LOADER.value: 473, Idle.HOST.value: 7}


def test_idle_while_the_host_waits_for_other_ranks_is_communication_wait(script: Any) -> None:
    """a ends at 17; gloo holds the host from 5 to 305, then the launch of b takes 5 and 2."""
    story = script().launch("a", 10).host("gloo:all_reduce", 300).launch("b", 10)
    assert causes(story.trace()) == {Idle.COMMUNICATION.value: 288, Idle.HOST.value: 7}


@pytest.mark.parametrize(
    ("name", "category"),
    [
        ("c10d::barrier", "cpu_op"),
        ("MPI_Allreduce", "user_annotation"),
        ("torch/distributed/distributed_c10d.py(4159): barrier", "python_function"),
        ("torch/distributed/distributed_c10d.py(2647): all_gather_object", "python_function"),
        ("<built-in method get of torch._C._distributed_c10d.TCPStore object at 0x7f>",
         "python_function"),
        ("Rendezvous", "cpu_op"),
        ("ncclCommInitRankConfig", "user_annotation"),
    ],
)  # fmt: skip
def test_calls_that_wait_for_other_ranks_are_known_by_name(
    script: Any, name: str, category: str
) -> None:
    story = script().launch("a", 10).host(name, 300, category).launch("b", 10)
    assert causes(story.trace())[Idle.COMMUNICATION.value] == 288


def test_a_collective_call_that_launches_is_the_hosts_and_one_that_launches_nothing_waits(
    script: Any,
) -> None:
    """The first call, 5-205, launches b at 100 (its gap is 17-107); the second, 300-500, nothing:
    b ends at 117, c begins at 507."""
    story = script().launch("a", 10)
    story.span("cpu_op", "c10d::allreduce_", 5, 200)
    story.host_us = 100
    story.launch("b", 10)
    story.span("cpu_op", "c10d::allreduce_", 300, 200)
    story.host_us = 500
    story.launch("c", 10)
    assert causes(story.trace()) == {
        Idle.HOST.value: 90 + 183 + 7,
        Idle.COMMUNICATION.value: 200,
    }


def test_what_a_call_to_a_group_costs_is_no_waiting(script: Any) -> None:
    story = script().launch("a", 10).host("gloo:all_reduce", 40).launch("b", 10)
    assert causes(story.trace()) == {Idle.HOST.value: 35}


def test_a_gap_that_begins_in_a_blocking_call_is_split_from_the_wait_after_it(script: Any) -> None:
    """The call returns at 22, the barrier lasts from there to 322, b begins at 329: 17-22 began in
    the call, 22-322 waits for ranks, the rest is the launch."""
    story = script().launch("a", 10).synchronize().host("c10d::barrier", 300).launch("b", 10)
    assert causes(story.trace()) == {
        Idle.SYNC.value: 5,
        Idle.COMMUNICATION.value: 300,
        Idle.HOST.value: 7,
    }


def test_loading_and_saving_come_before_the_waits_in_them(script: Any) -> None:
    story = script().launch("a", 10)
    story.span("cpu_op", "torch.save", 5, 300)
    story.host("c10d::barrier", 300).launch("b", 10)
    assert causes(story.trace())[Idle.CHECKPOINT.value] == 288


def test_the_causes_of_every_step_add_up_to_its_idle_time(script: Any) -> None:
    story = script()

    def body() -> None:
        story.launch("a", 10).host("gloo:broadcast", 200).launch("b", 10).synchronize()
        story.host("enumerate(DataLoader)#next", 80).launch("c", 30).host("aten::add", 60)

    for _ in range(4):
        story.step(body)
    trace = story.trace()
    line = timeline(trace)
    assert line is not None
    for row in step_breakdowns(trace, line):
        assert sum(row.idle_by_cause_ns.values()) == row.idle_ns
        assert row.idle_by_cause_ns[Idle.COMMUNICATION.value] > 0


def test_kernels_without_a_length_are_no_activity(script: Any) -> None:
    trace = script().launch("a", 0).trace()
    assert timeline(trace) is None
    assert job_of([trace]).ranks == ()
