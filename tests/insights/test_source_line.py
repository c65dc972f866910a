from __future__ import annotations

from typing import Any

import pytest

from pilotlight.insights.finding import SpanReference
from pilotlight.insights.job import job_of
from pilotlight.insights.source_line import line_of

LINE = "model/block.py:42 forward"


def line(story: Any, span: SpanReference) -> str:
    (view,) = job_of([story.trace()]).ranks
    return line_of(view, span)


def story_of(script: Any, *frames: str) -> tuple[Any, SpanReference]:
    """A kernel launched inside these functions, long after them on the device."""
    story = script().launch("other", 5000)
    for depth, frame in enumerate(frames):
        story.span("python_function", frame, 20 + depth, 400 - 2 * depth)
    story.host_us = 100
    story.launch("gemm", 50)
    return story, SpanReference(0, "gemm", 5_007_000, 50_000)


@pytest.mark.parametrize(
    "frames",
    [
        ("train.py(7): main", "model/block.py(42): forward"),
        (
            "model/block.py(42): forward",
            "torch/nn/functional.py(9): linear",
            "<built-in method mm>",
        ),
        ("model/block.py(42): forward", "/opt/lib/python3.11/contextlib.py(79): inner"),
        ("model/block.py(42): forward", "/x/site-packages/torch/_ops.py(1): __call__"),
        ("model/block.py(42): forward", "functools.py(5): wrapper", "nn.Module: Linear_0"),
    ],
)
def test_a_kernel_comes_from_the_innermost_line_outside_the_framework(
    script: Any, frames: tuple[str, ...]
) -> None:
    assert line(*story_of(script, *frames)) == LINE


def test_the_code_of_another_package_is_a_place_too(script: Any) -> None:
    frames = ("train.py(7): main", "/x/site-packages/vllm/layer.py(3): run")
    assert line(*story_of(script, *frames)) == "/x/site-packages/vllm/layer.py:3 run"


@pytest.mark.parametrize("frames", [(), ("torch/_ops.py(1): __call__", "runpy.py(9): _run_code")])
def test_without_such_a_line_nothing_is_said(script: Any, frames: tuple[str, ...]) -> None:
    assert line(*story_of(script, *frames)) == ""


def test_what_the_host_did_comes_from_the_thread_that_launches(script: Any) -> None:
    story, _ = story_of(script, "model/block.py(42): forward")
    assert line(story, SpanReference(0, "data loader", 60_000, 10_000)) == LINE
    assert line(story, SpanReference(0, "data loader", 900_000, 10_000)) == ""


def test_a_kernel_without_its_launch_call_has_no_line(script: Any) -> None:
    story, span = story_of(script, "model/block.py(42): forward")
    story.events = [e for e in story.events if e["ts"] != 100]
    assert line(story, span) == ""


def test_a_pause_comes_from_the_function_that_takes_most_of_it(script: Any) -> None:
    story = script().launch("gemm", 10)
    story.span("python_function", "/app/train.py(10): main", 0, 1000)
    story.span("python_function", "/app/log.py(3): short", 100, 50)
    story.span("python_function", "/app/data.py(7): decode", 200, 700)
    (view,) = job_of([story.trace()]).ranks
    assert line_of(view, SpanReference(0, "gap", 100, 900_000)) == "/app/data.py:7 decode"
