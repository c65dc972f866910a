from __future__ import annotations

import json

import pytest

from pilotlight.trace.kineto import read_kineto
from pilotlight.trace.trace import Trace


def trace_of(*names: str, category: str = "user_annotation") -> Trace:
    events = [
        {"ph": "X", "cat": category, "name": name, "pid": 1, "tid": 1, "ts": 100 - i, "dur": 1}
        for i, name in enumerate(names)
    ]
    return read_kineto(iter([json.dumps(events).encode()]), "a.json")


def test_steps_come_in_the_order_of_time() -> None:
    trace = trace_of("ProfilerStep#8", "ProfilerStep#7")
    assert list(trace.steps.number) == [7, 8]


@pytest.mark.parametrize(
    "name",
    [
        "ProfilerStep#3", "step 3", "[step 3]", "train_step_3", "iteration=3", "Iteration: 3",
        "iter_3", "global_step=3", "Step 3/100", "epoch 1 step 3", "epoch_1_step_3",
    ],
)  # fmt: skip
def test_common_names_of_steps_are_known(name: str) -> None:
    assert list(trace_of(name).steps.number) == [3]


@pytest.mark.parametrize(
    "name",
    [
        "stepper", "ProfilerStep#", "footstep 3 x", "step" + "9" * 30, "aten::step3",
        "optimizer_step_3", "epoch 3", "iterator 3",
    ],
)  # fmt: skip
def test_other_names_are_no_steps(name: str) -> None:
    assert len(trace_of(name).steps) == 0


def test_the_copy_of_a_step_on_the_device_does_not_count_twice() -> None:
    assert len(trace_of("ProfilerStep#3", category="gpu_user_annotation").steps) == 0


def told(*spans: tuple[str, int, int]) -> Trace:
    events = [
        {
            "ph": "X",
            "cat": "user_annotation",
            "name": name,
            "pid": 1,
            "tid": tid,
            "ts": at,
            "dur": us,
        }
        for tid, (name, at, us) in enumerate(spans)
    ]
    return read_kineto(iter([json.dumps(events).encode()]), "a.json")


def test_numbered_parts_of_a_step_are_no_steps() -> None:
    trace = told(("step 1", 0, 90), ("iter 0", 5, 30), ("iter 1", 40, 50), ("step 2", 100, 90))
    assert trace.steps.number.tolist() == [1, 2]
    assert trace.steps.duration_ns.tolist() == [90_000, 90_000]


def test_steps_that_overlap_a_little_are_all_kept() -> None:
    assert told(("step 1", 0, 100), ("step 2", 99, 100)).steps.number.tolist() == [1, 2]


def test_the_profilers_own_steps_count_before_those_of_the_program() -> None:
    trace = told(("iteration 50", 0, 200), ("ProfilerStep#7", 10, 80), ("ProfilerStep#8", 90, 80))
    assert trace.steps.number.tolist() == [7, 8]
