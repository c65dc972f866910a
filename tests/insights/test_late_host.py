from __future__ import annotations

from typing import Any

from tests.insights.telling import only

from pilotlight.insights.catalogue import diagnose
from pilotlight.insights.job import job_of


def late(story: Any, what: str, count: int, wait: float = 80) -> None:
    """Each launch comes when the device has long been idle."""
    for _ in range(count):
        story.host(what, wait).launch("gemm_tensorop", 100)
        story.host_us = story.device_us


def test_a_host_that_is_late_for_every_launch_launches_too_late(script: Any) -> None:
    story = script()
    late(story, "aten::mul", 30)
    finding = only("A02", story.trace())
    assert finding.title == "The host launches too late"
    assert finding.confidence == "medium"
    assert "torch.compile" in finding.fix


def test_one_long_pause_is_told_apart_with_its_place(script: Any) -> None:
    story = script()
    late(story, "aten::mul", 30)
    begin = story.host_us
    story.span("python_function", "/app/data.py(7): decode", begin, 20_000)
    late(story, "aten::cudnn_convolution", 1, wait=20_000)
    finding = only("A02", story.trace())
    assert finding.title == "The host stops launching for long"
    assert (finding.place, finding.confidence) == ("aten::cudnn_convolution", "low")
    assert finding.gain_low_ratio == 0
    assert "trace later steps" in finding.fix
    assert [span.duration_ns // 1_000_000 for span in finding.spans] == [20]


def test_a_pause_in_most_steps_is_how_the_host_launches(script: Any) -> None:
    story = script()
    for _ in range(10):
        story.step(lambda: late(story, "my_metrics", 1, wait=2000))
    assert only("A02", story.trace()).title == "The host launches too late"


def test_what_is_compiled_already_is_not_told_to_compile(script: Any) -> None:
    story = script()
    late(story, "## Call CompiledFxGraph abc ##", 30)
    assert "reduce-overhead" in only("A02", story.trace()).fix


def test_what_another_thread_does_meanwhile_is_not_the_place(script: Any) -> None:
    story = script()
    late(story, "aten::mul", 30)
    story.span("user_annotation", "write metrics", 0, story.host_us)
    story.events[-1]["tid"] = 33
    finding = only("A02", story.trace())
    assert finding.place == "aten::mul"
    assert "metrics" not in " ".join(finding.evidence)


def test_a_faster_host_does_not_make_the_loader_faster(script: Any) -> None:
    story = script()

    def body() -> None:
        story.host("enumerate(DataLoader)#_Next", 4000)
        late(story, "aten::mul", 20)

    for _ in range(5):
        story.step(body)
    gains = {one.rule: one.gain_high_ratio for one in diagnose(job_of([story.trace()])).findings}
    of_host, of_loader = 20 * 85 / 7760, 4000 / 7760
    assert abs(gains["A02"] - of_host) < 0.05
    assert abs(gains["A08"] - of_loader) < 0.05
