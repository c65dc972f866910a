from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from pilotlight.errors import UsageError
from pilotlight.insights.difference import (
    Change,
    difference,
    family,
    noise_probability,
    parse_limit,
)
from pilotlight.insights.job import job_of
from pilotlight.simulate.fault import Fault
from pilotlight.simulate.job import JobShape
from pilotlight.simulate.run import simulate
from pilotlight.trace.reader import read_traces
from pilotlight.trace.trace import Float64


def test_equal_samples_are_noise() -> None:
    values = np.array([10.0, 11, 10.5, 10.2, 10.8])
    assert noise_probability(values, values[::-1]) == pytest.approx(1)


def test_separate_samples_are_not_noise() -> None:
    probability = noise_probability(np.arange(5.0), np.arange(5.0) + 100)
    assert probability == pytest.approx(2 / 252)


def test_false_alarms_come_as_often_as_stated() -> None:
    random = np.random.default_rng(7)
    alarms = sum(
        (noise_probability(random.normal(size=6), random.normal(size=6)) or 0) <= 0.05
        for _ in range(400)
    )
    assert 4 <= alarms <= 40


def test_false_alarms_stay_rare_where_steps_resemble_their_neighbours() -> None:
    random = np.random.default_rng(8)

    def run() -> Float64:
        values = np.zeros(80)
        for i in range(1, 80):
            values[i] = 0.7 * values[i - 1] + random.normal()
        return values

    assert sum((noise_probability(run(), run()) or 1) <= 0.05 for _ in range(60)) <= 9


def test_of_many_parts_of_an_unchanged_job_hardly_any_looks_changed() -> None:
    random = np.random.default_rng(9)
    alarms = 0
    for _ in range(100):
        before, after = random.lognormal(0, 0.3, (2, 12, 6))
        changes = tuple(
            Change(str(i), 1, 1, noise_probability(before[i], after[i])) for i in range(12)
        )
        alarms += any(change.is_noise is False for change in family(changes))
    assert alarms <= 20


def test_parts_of_a_changed_job_are_judged_each_on_its_own() -> None:
    changes = (Change("step_time", 1, 2, 0.01), Change("idle", 1, 2, 0.03))
    assert family(changes) == changes
    unchanged = (Change("step_time", 1, 1, 0.5), Change("idle", 1, 2, 0.03), changes[1])
    assert family(unchanged)[1].is_noise


def test_a_kernel_that_became_slower_is_told_from_noise() -> None:
    slow = (Fault("slow_gpu", 0, 1.1),)
    shape = JobShape(ranks=1, steps=8, layers=4)
    found = difference(job_of(simulate(shape)), job_of(simulate(replace(shape, seed=1), slow)))
    same = difference(job_of(simulate(shape)), job_of(simulate(replace(shape, seed=1))))
    gemm = next(change for change in found.items if "qkv" in change.what)
    assert gemm.is_noise is False and gemm.ratio == pytest.approx(0.1, abs=0.03)
    assert sum(change.is_noise is False for change in same.items) <= 3


def test_few_steps_give_no_answer_about_noise() -> None:
    assert noise_probability(np.array([1.0]), np.array([2.0])) is None


@pytest.mark.parametrize("text", ["", "step_time", "step_time>3", "speed>3%", "step_time<3%"])
def test_a_wrong_limit_is_a_usage_error(text: str) -> None:
    with pytest.raises(UsageError, match="METRIC>N%"):
        parse_limit(text)


def test_a_limit_is_exceeded_by_a_change_that_is_no_noise() -> None:
    limit = parse_limit("step_time>3%")
    assert limit.is_exceeded(Change("step_time", 100, 104, 0.01))
    assert limit.is_exceeded(Change("step_time", 100, 104, None))
    assert not limit.is_exceeded(Change("step_time", 100, 104, 0.5))
    assert not limit.is_exceeded(Change("step_time", 100, 102, 0.01))


def test_more_loader_workers_show_as_less_idle_for_the_loader(shared_data: Path) -> None:
    jobs = [
        job_of(read_traces([shared_data / "kineto" / f"resnet50_workers{n}.json.gz"]).traces)
        for n in (0, 4)
    ]
    found = difference(*jobs)
    by_name = {change.what: change for change in found.parts}
    assert by_name["step_time"].ratio < -0.2
    assert by_name["step_time"].is_noise is False
    assert by_name["idle: loader"].ratio < -0.9
    assert abs(by_name["compute"].ratio) < 0.05
    assert by_name["compute"].is_noise is True
