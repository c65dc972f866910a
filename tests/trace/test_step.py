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
    "name", ["ProfilerStep#3", "step 3", "[step 3]", "train_step_3", "iteration=3"]
)
def test_common_names_of_steps_are_known(name: str) -> None:
    assert list(trace_of(name).steps.number) == [3]


@pytest.mark.parametrize(
    "name", ["stepper", "ProfilerStep#", "footstep 3 x", "step" + "9" * 30, "aten::step3"]
)
def test_other_names_are_no_steps(name: str) -> None:
    assert len(trace_of(name).steps) == 0


def test_the_copy_of_a_step_on_the_device_does_not_count_twice() -> None:
    assert len(trace_of("ProfilerStep#3", category="gpu_user_annotation").steps) == 0
