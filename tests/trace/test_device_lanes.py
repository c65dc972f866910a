from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pilotlight.trace.device_lanes import by_device
from pilotlight.trace.kineto import read_kineto
from pilotlight.trace.trace import Kind, Trace
from pilotlight.trace.trace_file import read_file


def named(kind: str, pid: int, name: str, tid: int = 0) -> dict[str, Any]:
    return {"ph": "M", "name": f"{kind}_name", "pid": pid, "tid": tid, "args": {"name": name}}


def span(pid: int, tid: int, name: str, start: float = 1, duration: float = 2) -> dict[str, Any]:
    return {"ph": "X", "pid": pid, "tid": tid, "name": name, "ts": start, "dur": duration}


def read(folder: Path, events: list[dict[str, Any]]) -> tuple[Trace, ...]:
    path = folder / "host.trace.json"
    path.write_text(json.dumps({"displayTimeUnit": "ns", "traceEvents": events}))
    return read_file(path).traces


def kinds(trace: Trace) -> dict[str, Kind]:
    rows = zip(trace.spans.name.tolist(), trace.spans.kind.tolist(), strict=True)
    return {trace.names[name]: Kind(kind) for name, kind in rows}


def jax_device(pid: int, number: int) -> list[dict[str, Any]]:
    """As xprof writes them: no categories."""
    return [
        named("process", pid, f"/device:GPU:{number}"),
        named("thread", pid, "Stream #14(Compute,MemcpyD2D)", 14),
        named("thread", pid, "XLA Modules", 2),
        span(pid, 14, f"loop_add_fusion_{number}"),
        span(pid, 14, "MemcpyD2D", 4),
        span(pid, 2, "jit_step"),
    ]


HOST = [
    named("process", 701, "/host:CPU"),
    span(701, 9, "PjitFunction(step)"),
    span(701, 9, "cuLaunchKernel"),
]


def test_kernels_of_jax_are_known_by_their_stream(tmp_path: Path) -> None:
    (trace,) = read(tmp_path, [*HOST, *jax_device(1, 0)])
    assert kinds(trace) == {
        "PjitFunction(step)": Kind.OPERATOR,
        "cuLaunchKernel": Kind.RUNTIME,
        "loop_add_fusion_0": Kind.KERNEL,
        "MemcpyD2D": Kind.MEMCPY,
        "jit_step": Kind.DEVICE_ANNOTATION,
    }


def test_each_of_several_devices_is_a_rank_with_the_host(tmp_path: Path) -> None:
    traces = read(tmp_path, [*HOST, *jax_device(1, 0), *jax_device(2, 3)])
    assert [trace.rank for trace in traces] == [0, 3]
    for trace in traces:
        of_kernels = [name for name, kind in kinds(trace).items() if kind == Kind.KERNEL]
        assert of_kernels == [f"loop_add_fusion_{trace.rank}"]
        assert "PjitFunction(step)" in kinds(trace)


@pytest.mark.parametrize("process", ["GPU2", "GPU 2"])
def test_queues_of_rocm_tools_have_no_name(tmp_path: Path, process: str) -> None:
    events = [named("process", 2, process), span(2, 0, "Cijk_Ailk"), span(2, 1, "CopyHostToDevice")]
    (trace,) = read(tmp_path, [*events, span(77, 77, "hipMemcpy")])
    assert kinds(trace) == {
        "Cijk_Ailk": Kind.KERNEL,
        "CopyHostToDevice": Kind.MEMCPY,
        "hipMemcpy": Kind.RUNTIME,
    }


def test_categories_are_believed_before_names_of_processes(tmp_path: Path) -> None:
    kernel = {**span(0, 7, "gemm"), "cat": "kernel"}
    (trace,) = read(tmp_path, [named("process", 0, "GPU 0"), kernel, span(0, 7, "note")])
    assert kinds(trace) == {"gemm": Kind.KERNEL, "note": Kind.OTHER}


NAMES = ["/device:GPU:0", "x/device:TPU:1", "GPU 7", "GPU", "/host:CPU", "/device:GPU:99999999", ""]
LINES = ["Stream #1", "XLA Ops", "Steps", ""]
PIDS = st.integers(0, 4)


@settings(max_examples=60, deadline=None)
@given(
    st.dictionaries(PIDS, st.sampled_from(NAMES)),
    st.dictionaries(st.tuples(PIDS, PIDS), st.sampled_from(LINES)),
    st.lists(st.tuples(PIDS, PIDS, st.sampled_from(["kernel", "", "cpu_op"])), min_size=1),
)
def test_no_span_is_lost_or_changed_but_in_its_kind(
    processes: dict[int, str],
    lines: dict[tuple[int, int], str],
    rows: list[tuple[int, int, str]],
) -> None:
    events = [named("process", pid, name) for pid, name in processes.items()]
    events += [named("thread", pid, name, tid) for (pid, tid), name in lines.items()]
    for i, (pid, tid, category) in enumerate(rows):
        told = {"cat": category} if category else {}
        events.append({**span(pid, tid, f"s{i}", i + 1), **told})
    whole = read_kineto(iter([json.dumps(events).encode()]), "a.json")
    found = by_device(whole)
    assert {trace.names[n] for trace in found for n in trace.spans.name} == set(whole.names)
    for trace in found:
        for start_ns, number in zip(trace.spans.start_ns, trace.spans.name, strict=True):
            assert trace.names[number] == f"s{start_ns // 1000 - 1}"
    if len(found) == 1:
        assert len(found[0].spans) == len(whole.spans)


def kernel(device: int, start: float, duration: float, correlation: int) -> dict[str, Any]:
    event = {**span(device, 7, f"k{device}", start, duration), "cat": "kernel"}
    grid = {"grid": [device + 1, 1, 1], "block": [32, 1, 1]}
    return {**event, "args": {"correlation": correlation, **grid}}


def test_a_process_that_computes_on_two_devices_is_two_ranks(tmp_path: Path) -> None:
    """As with a model whose layers are on several GPUs: while one computes, the other waits."""
    call = {**span(900, 1, "cudaLaunchKernel", 0), "cat": "cuda_runtime"}
    copy = {**span(2, 7, "Memcpy DtoD", 50), "cat": "gpu_memcpy"}
    events = [call, kernel(0, 10, 40, 1), kernel(1, 50, 40, 2), copy]
    path = tmp_path / "trace.json"
    devices = [{"id": i, "name": f"GPU of number {i}"} for i in range(3)]
    text = json.dumps({"deviceProperties": devices, "traceEvents": events})
    path.write_text(text)
    first, second = read_file(path).traces
    assert [trace.devices for trace in (first, second)] == [
        ("GPU of number 0",), ("GPU of number 1",),
    ]  # fmt: skip
    assert set(kinds(first)) == {"cudaLaunchKernel", "k0", "Memcpy DtoD"}
    assert set(kinds(second)) == {"cudaLaunchKernel", "k1"}
    assert second.detail.grids.blocks.tolist()[1] == 2
    path.write_text(text.replace("{", '{"distributedInfo": {"rank": 3}, ', 1))
    assert len(read_file(path).traces) == 1


def test_a_device_that_hardly_computes_is_no_rank(tmp_path: Path) -> None:
    path = tmp_path / "trace.json"
    path.write_text(json.dumps([kernel(0, 10, 400, 1), kernel(1, 50, 4, 2)]))
    (trace,) = read_file(path).traces
    assert len(trace.of_kind(Kind.KERNEL)) == 2


def test_the_steps_that_jax_numbers_are_those_of_the_host(tmp_path: Path) -> None:
    def train(pid: int, number: str, start: float, duration: float = 10) -> dict[str, Any]:
        return span(pid, 9, "train", start, duration) | {"args": {"step_num": number}}

    steps = [train(701, "7", 20), train(701, "6", 5), train(701, "6", 6, 2), train(701, "x", 40)]
    (trace,) = read(tmp_path, [*HOST, *jax_device(1, 0), *steps, train(1, "6", 8)])
    assert trace.steps.number.tolist() == [6, 7]
    assert trace.steps.start_ns.tolist() == [5000, 20000]
