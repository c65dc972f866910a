from __future__ import annotations

from typing import Any

import pytest
from tests.insights.telling import is_silent, only, verdict


def beside(script: Any, slow: float) -> Any:
    """Ten kernels alone, ten while a collective runs on another stream."""
    story = script()
    for _ in range(10):
        story.launch("gemm_tensorop", 100)
    begin = story.device_us
    for _ in range(10):
        story.launch("gemm_tensorop", slow)
    story.span("kernel", "ncclDevKernel_AllReduce", begin, story.device_us - begin)
    story.events[-1]["tid"] = 8
    return story.trace()


def test_kernels_slowed_by_a_collective_beside_them_are_found(script: Any) -> None:
    finding = only("A32", beside(script, 150))
    assert finding.gain_high_ratio == pytest.approx(500 / 2500, rel=0.1)


def test_kernels_that_take_as_long_beside_it_are_not(script: Any) -> None:
    assert is_silent("A32", beside(script, 105))
    assert "communication" in verdict("A32", script().launch("k", 10).trace()).missing


def normed(script: Any, count: int) -> Any:
    story = script()

    def body() -> None:
        for _ in range(count):
            story.host("aten::batch_norm_gather_stats_with_counts", 5)
            story.launch("ncclDevKernel_AllGather", 20).launch("batch_norm_kernel", 20)

    for _ in range(3):
        story.step(body)
    return story.trace()


def test_many_synchronised_norms_are_found(script: Any) -> None:
    assert only("A20", normed(script, 30)).gain_high_ratio > 0.3


def test_a_few_are_not(script: Any) -> None:
    assert is_silent("A20", normed(script, 10))
