from __future__ import annotations

from typing import Any

from tests.insights.telling import is_silent, only, verdict


def training(script: Any, kernels: list[tuple[str, float]], count: int = 8) -> Any:
    story = script()

    def body() -> None:
        for name, length in kernels:
            story.launch(name, length, cost=1)

    for _ in range(count):
        story.step(body)
    return story.trace()


def test_a_chain_of_memory_bound_kernels_is_found_with_its_gain(script: Any) -> None:
    chain = [("elementwise_add", 30.0), ("elementwise_mul", 20.0), ("layer_norm_kernel", 50.0)]
    finding = only("A13", training(script, [*chain, ("gemm_tensorop", 100.0)]))
    # The longest of the three, 50 of 200 µs, remains.
    assert abs(finding.gain_high_ratio - 0.25) < 0.02
    assert finding.place.startswith("elementwise_add + elementwise_mul")


def test_kernels_with_products_between_them_are_no_chain(script: Any) -> None:
    kernels = [("elementwise_add", 30.0), ("gemm_tensorop", 100.0)]
    assert is_silent("A13", training(script, kernels))


def optimizer(script: Any, name: str, count: int) -> Any:
    story = script()

    def body() -> None:
        story.launch("gemm_tensorop", 500)
        begin = story.host_us
        for _ in range(count):
            story.launch(name, 4, cost=3)
        story.span("user_annotation", "Optimizer.step#Adam.step", begin, story.host_us - begin)
        story.host_us = max(story.host_us, story.device_us)

    for _ in range(4):
        story.step(body)
    return story.trace()


def test_an_optimizer_of_many_small_kernels_is_found(script: Any) -> None:
    finding = only("A19", optimizer(script, "elementwise_kernel", 100))
    assert "100 kernels a step" in finding.evidence[0]
    assert 0 < finding.gain_low_ratio < finding.gain_high_ratio < 0.5


def test_a_fused_optimizer_is_not(script: Any) -> None:
    assert is_silent("A19", optimizer(script, "multi_tensor_apply<FusedAdamMathFunctor>", 100))
    assert "optimizer" in verdict("A19", training(script, [("gemm_tensorop", 10.0)])).missing
