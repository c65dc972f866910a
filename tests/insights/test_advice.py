from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from pilotlight.insights.catalogue import diagnose
from pilotlight.insights.job import job_of


def launch_bound(script: Any) -> Any:
    story = script()
    for _ in range(5):
        story.step(lambda: [story.launch("elementwise", 3, cost=20) for _ in range(50)])
    return story.trace()


@pytest.mark.parametrize(
    ("form", "name", "word"),
    [
        ("kineto", "", "torch.compile"),
        ("xplane", "", "jax.jit"),
        ("kineto", "PjitFunction(f)", "jax.jit"),
    ],
)
def test_advice_is_that_of_the_framework(script: Any, form: str, name: str, word: str) -> None:
    trace = launch_bound(script)
    trace = replace(trace, format=form, names=(*trace.names, name))
    first = diagnose(job_of([trace])).findings[0]
    assert first.rule == "A01"
    assert word in first.fix


def test_a_program_without_a_framework_is_not_told_of_one(script: Any) -> None:
    story = script()
    for _ in range(250):
        story.launch("elementwise", 3, cost=20)
    first = diagnose(job_of([story.trace()])).findings[0]
    assert first.rule == "A01"
    assert "torch" not in first.fix
