"""The tables of an analysis beyond the breakdown."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.insights.telling import simulated

from pilotlight.analysis import TABLES, Analysis, analyze
from pilotlight.insights import ownership
from pilotlight.insights.communication import clocks, group_communication, rank_communication
from pilotlight.insights.critical_path import by_role, critical_path
from pilotlight.insights.finding import milliseconds
from pilotlight.insights.job import job_of
from pilotlight.insights.launches import launches
from pilotlight.insights.memory_use import memory_use
from pilotlight.insights.ownership import around, module_times, operator_times, stack_times
from pilotlight.insights.recorded_graph import recorded_graph
from pilotlight.insights.verdicts import Diagnosis
from pilotlight.trace.kineto import read_kineto
from pilotlight.trace.trace import Spans


def test_launches_in_a_full_queue_have_latency_and_length(script: Any) -> None:
    story = script()
    for _ in range(20):
        story.launch("gemm_tensorop", 100, cost=5)
    (view,) = job_of([story.trace()]).ranks
    found = launches(view)
    assert found.launched == 20
    # The host launches every 5 µs, the device needs 100: at the end 20 are under way.
    assert found.longest_queue == 20
    assert found.median_issue_ns > 500_000
    assert found.void_ratio == pytest.approx(0, abs=0.01)


def test_a_device_that_waits_for_launches_has_no_queue_and_is_void(script: Any) -> None:
    story = script()
    for _ in range(20):
        story.launch("gemm_tensorop", 10, cost=5)
        story.host_us += 95
    (view,) = job_of([story.trace()]).ranks
    found = launches(view)
    assert found.median_queue_length == 1
    assert found.median_issue_ns == pytest.approx(2000)
    assert found.void_ratio == pytest.approx(0.9, abs=0.02)


def test_waiting_and_transfer_are_told_apart_and_the_late_rank_waits_least() -> None:
    job = job_of(simulated("slow_gpu", 1, 1.5))
    rows = {row.rank: row for row in rank_communication(job)}
    assert rows[1].waiting_ns < 0.1 * rows[0].waiting_ns
    assert rows[1].transfer_ns == pytest.approx(rows[0].transfer_ns, rel=0.01)


def test_the_bus_bandwidth_is_that_of_the_simulated_links() -> None:
    (row,) = group_communication(job_of(simulated()))
    assert (row.operation, row.size) == ("allreduce", 4)
    assert row.bus_gb_per_s == pytest.approx(300, rel=0.03)


def test_skewed_clocks_are_found_with_their_uncertainty() -> None:
    straight, skewed = simulated(), simulated("clock_skew")
    truth = np.array(
        [
            int(b.spans.start_ns[0] - a.spans.start_ns[0])
            for a, b in zip(straight, skewed, strict=True)
        ]
    )
    found = clocks(job_of(skewed))
    ahead = np.array([row.ahead_ns for row in found])
    assert ahead - ahead[0] == pytest.approx(truth - truth[0], abs=1000)
    assert found[0].uncertainty_ns < 1000


def test_the_critical_path_is_the_whole_time_and_runs_through_the_slow_rank() -> None:
    parts = critical_path(recorded_graph(job_of(simulated("slow_gpu", 2, 2.0))))
    assert sum(part.ratio for part in parts) == pytest.approx(1, abs=0.001)
    kernels = [part for part in parts if part.role == "kernel"]
    of_rank = sum(part.total_ns for part in kernels if part.rank == 2)
    assert of_rank > 0.9 * sum(part.total_ns for part in kernels)
    assert next(iter(by_role(parts))) == "kernel"


def test_kernels_belong_to_the_module_and_operator_around_their_launch(script: Any) -> None:
    story = script()
    for name in ("Linear_0", "Norm_1"):
        begin = story.host_us
        story.launch("gemm_tensorop", 100)
        story.span("cpu_op", f"aten::{name}", begin, story.host_us - begin)
        story.span("python_function", f"nn.Module: {name}", begin, story.host_us - begin)
    story.launch("gemm_tensorop", 50)
    (view,) = job_of([story.trace()]).ranks
    modules = {row.owner: row.total_ns for row in module_times(view)}
    assert modules == {"Linear_0": 100_000, "Norm_1": 100_000, "(outside)": 50_000}
    assert {row.owner for row in operator_times(view)} == {
        "aten::Linear_0",
        "aten::Norm_1",
        "(outside)",
    }


def test_kernels_belong_to_the_python_functions_around_their_launch(script: Any) -> None:
    story = script()
    begin = story.host_us
    for name in ("encode", "decode", "encode"):
        inner = story.host_us
        story.launch("gemm_tensorop", 100)
        story.span("python_function", f"model.py(7): {name}", inner, story.host_us - inner)
    story.span("python_function", "train.py(3): main", begin, story.host_us - begin)
    story.span("python_function", "nn.Module: Model_0", begin, story.host_us - begin)
    story.launch("gemm_tensorop", 50)
    (view,) = job_of([story.trace()]).ranks
    assert [(row.stack, row.kernels, row.total_ns) for row in stack_times(view)] == [
        (("train.py(3): main", "model.py(7): encode"), 2, 200_000),
        (("train.py(3): main", "model.py(7): decode"), 1, 100_000),
        (("(outside)",), 1, 50_000),
    ]


def test_stacks_beyond_the_limit_are_summed(script: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ownership, "MAX_STACKS", 1)
    story = script()
    for name, length in (("a", 30), ("b", 20), ("c", 10)):
        begin = story.host_us
        story.launch("gemm_tensorop", length)
        story.span("python_function", name, begin, story.host_us - begin)
    (view,) = job_of([story.trace()]).ranks
    assert [(row.stack, row.kernels, row.total_ns) for row in stack_times(view)] == [
        (("a",), 1, 30_000),
        (("(2 other stacks)",), 2, 30_000),
    ]


@given(
    st.lists(st.tuples(st.integers(0, 30), st.integers(0, 12), st.integers(0, 1)), max_size=12),
    st.lists(st.tuples(st.integers(0, 40), st.integers(0, 1)), max_size=8),
)
def test_the_spans_around_a_time_are_those_that_hold_it(
    rows: list[tuple[int, int, int]], asked: list[tuple[int, int]]
) -> None:
    start, length, lane = (np.array([row[i] for row in rows], np.int64) for i in range(3))
    none = np.full(len(rows), -1)
    name = np.arange(len(rows), dtype=np.uint32)
    spans = Spans(start, length, name.astype(np.uint8), name, lane.astype(np.uint32), none, none)
    times, lanes = (np.array([one[i] for one in asked], np.int64) for i in range(2))
    found = dict(around(spans, lanes.astype(np.uint32), times))
    assert sorted(found) == list(range(len(asked)))
    for number, (time, where) in enumerate(asked):
        holding = [i for i, (begin, span, on) in enumerate(rows)
                   if on == where and begin <= time < begin + span]  # fmt: skip
        assert found[number] == sorted(holding, key=lambda i: (rows[i][0], -rows[i][1]))


def analysis() -> Analysis:
    return Analysis(job_of(simulated()), Diagnosis((), ()), ())


@pytest.mark.parametrize("name", TABLES)
def test_every_table_is_a_data_frame_and_json(name: str) -> None:
    pytest.importorskip("polars")
    found = analysis()
    rows = found.table(name)
    json.dumps(rows, allow_nan=False)
    assert len(found.frame(name)) == len(rows)


def test_the_real_model_has_its_modules(shared_data: Path) -> None:
    found = analyze(shared_data / "kineto" / "qwen_h100.json.gz")
    owners = {row["owner"] for row in found.table("modules")}
    assert any(owner.startswith("Qwen2MLP") for owner in owners)
    assert found.table("memory")[0]["peak_bytes"] > 1e9


def test_memory_has_its_peak_first_and_last_value() -> None:
    events = [
        {"ph": "X", "cat": "kernel", "name": "k", "pid": 0, "tid": 7, "ts": 1, "dur": 1},
        *(
            {"ph": "C", "name": "gpu", "pid": 0, "ts": ts, "args": {"memory_used": value}}
            for ts, value in ((1, 5), (2, 9), (3, 7))
        ),
    ]
    trace = read_kineto(iter([json.dumps(events).encode()]), "a.json")
    (row,) = memory_use(job_of([trace]).ranks[0])
    assert (row.peak_bytes, row.first_bytes, row.last_bytes, row.peak_ns) == (9, 5, 7, 2000)


@pytest.mark.parametrize(
    ("ns", "text"),
    [(30_000, "0.03 ms"), (9_994_000, "9.99 ms"), (9_996_000, "10.0 ms"), (99_940_000, "99.9 ms"),
     (99_960_000, "100 ms"), (2_019_210_000, "2,019 ms"), (10_034_000_000, "10.0 s"),
     (2_304, "2.30 µs"), (0, "0.00 ms")],
)  # fmt: skip
def test_times_in_evidence_have_the_digits_that_count(ns: int, text: str) -> None:
    assert milliseconds(ns) == text
