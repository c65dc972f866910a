from __future__ import annotations

from typing import Any

import pytest
from tests.insights.telling import is_silent, only, verdict


def job(script: Any, name: str, steps: tuple[int, ...], length: float = 2000) -> Any:
    story = script()
    for step in range(8):

        def body(step: int = step) -> None:
            if step in steps:
                story.host(name, length)
            story.launch("gemm_tensorop", 1000).synchronize()

        story.step(body)
    return story.trace()


COMPILE = "torch/_dynamo/convert_frame.py: _compile.compile_inner"


def test_compilation_in_the_middle_is_found_with_its_steps_and_gain(script: Any) -> None:
    finding = only("A06", job(script, COMPILE, (4, 5)))
    assert "steps 4, 5" in " ".join(finding.evidence)
    assert finding.gain_high_ratio == pytest.approx(4000 / 11000, rel=0.05)


def test_compilation_in_the_first_step_is_no_fault(script: Any) -> None:
    assert is_silent("A06", job(script, COMPILE, (0,)))
    assert "compilation" in verdict("A06", job(script, "x", ())).missing


@pytest.mark.parametrize("name", ["torch.save", "checkpoint", "trainer: save_checkpoint"])
def test_a_checkpoint_that_stops_the_device_is_found(script: Any, name: str) -> None:
    assert only("A37", job(script, name, (2, 6))).cause == "checkpoint"


@pytest.mark.parametrize(
    "name", ["FSDP (blocks.2._checkpoint_wrapped_module)", "CheckpointFunction"]
)
def test_checkpoints_of_activations_are_none(script: Any, name: str) -> None:
    assert "checkpoint" in verdict("A37", job(script, name, (2, 6))).missing


def level(script: Any, before: float, after: float, copy: float) -> Any:
    story = script()
    for step in range(40):

        def body(step: int = step) -> None:
            story.launch("gemm_tensorop", before if step < 25 else after)
            if step >= 25 and copy:
                story.launch("Memcpy HtoD (Pinned -> Device)", copy, category="gpu_memcpy")
            story.synchronize()

        story.step(body)
    return story.trace()


def test_a_level_that_rose_is_found_with_what_grew(script: Any) -> None:
    finding = only("A34", level(script, 1000, 1000, 300))
    assert (finding.cause, finding.place) == ("changed", "exposed copies")
    assert "step 25" in finding.title


def test_compute_that_grew_is_a_larger_batch(script: Any) -> None:
    assert is_silent("A34", level(script, 1000, 1300, 0))


def capture(story: Any) -> None:
    """Launches that only fill a graph leave no kernel."""
    story.host("cudaStreamBeginCapture", 10, "cuda_runtime")
    for _ in range(20):
        story.host("cudaLaunchKernel", 100, "cuda_runtime")
    story.host("cudaStreamEndCapture", 10, "cuda_runtime")
    story.host("cudaGraphInstantiate", 80, "cuda_runtime")


def test_the_capture_of_graphs_is_told_as_a_start(script: Any) -> None:
    story = script().launch("gemm_tensorop", 100)
    capture(story)
    finding = only("A06", story.launch("gemm_tensorop", 100).trace())
    assert "graphs are captured" in finding.title
    assert "trace later steps" in finding.fix
    assert (finding.gain_low_ratio, finding.confidence) == (0.0, "low")


def test_graphs_that_are_captured_in_later_steps_are_a_fault(script: Any) -> None:
    story = script()
    for step in range(8):

        def body(step: int = step) -> None:
            if step in (4, 5):
                capture(story)
            story.launch("gemm_tensorop", 1000).synchronize()

        story.step(body)
    finding = only("A06", story.trace())
    assert finding.title == "Graphs are captured"
    assert "steps 4, 5" in " ".join(finding.evidence)
    assert finding.gain_low_ratio > 0.2


def test_a_capture_without_an_end_takes_no_time(script: Any) -> None:
    story = script().launch("gemm_tensorop", 100)
    story.host("cudaStreamBeginCapture", 10, "cuda_runtime").host("rest", 500)
    assert not verdict("A06", story.launch("gemm_tensorop", 100).trace()).findings
