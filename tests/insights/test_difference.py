from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from pilotlight.errors import UsageError
from pilotlight.insights.difference import Change, difference, noise_probability, parse_limit
from pilotlight.insights.job import job_of
from pilotlight.trace.reader import read_traces


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
