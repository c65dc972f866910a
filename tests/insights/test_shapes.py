from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from tests.insights.telling import is_silent, only, verdict

from pilotlight.trace.detail import Detail, Grids, Operator, Operators
from pilotlight.trace.trace import Trace

H100 = "NVIDIA H100 80GB HBM3"


def products(script: Any, rows: list[tuple[tuple[int, int, int], float]]) -> Trace:
    """Each (m, k, n) in bf16 takes so many microseconds."""
    story = script()
    starts, kinds = [], []
    for _ in range(5):
        for i, (_, length) in enumerate(rows):
            starts.append(int(story.host_us * 1000))
            kinds.append(i)
            story.host("aten::mm", 2).launch("nvjet_tst_128x256", length, cost=1)
            story.host_us += 1
    operators = tuple(
        Operator("aten::mm", ((m, k), (k, n)), ("c10::BFloat16", "c10::BFloat16"))
        for (m, k, n), _ in rows
    )
    count = len(starts)
    table = Operators(
        np.array(starts),
        np.full(count, 3000),
        np.zeros(count, np.int64),
        np.array(kinds),
        operators,
        ("9",),
    )
    trace: Trace = story.trace(device=H100)
    return replace(trace, detail=Detail(operators=table))


# 2 * 4096^3 operations take 178 µs at the achievable peak of 772 TFLOP/s.
GOOD = ((4096, 4096, 4096), 185.0)


def test_a_product_far_below_the_roof_is_found_with_its_gain(script: Any) -> None:
    finding = only("A17", products(script, [GOOD, ((4096, 4096, 4096), 740.0)]))
    assert "4096x4096" in finding.place
    assert finding.gain_high_ratio == pytest.approx(0.6, abs=0.05)


def test_products_near_the_roof_are_not(script: Any) -> None:
    assert is_silent("A17", products(script, [GOOD]))


def test_a_product_beyond_the_roof_gives_no_advice(script: Any) -> None:
    assert is_silent("A17", products(script, [((4096, 4096, 4096), 100.0)]))


def test_sizes_that_are_no_multiples_of_eight_are_found_where_they_cost(script: Any) -> None:
    odd = ((4096, 4096, 4099), 400.0)
    finding = only("A15", products(script, [GOOD, odd]))
    assert "4099" in finding.place
    assert is_silent("A15", products(script, [GOOD, ((4096, 4096, 4104), 400.0)]))


def test_an_odd_number_of_rows_is_aligned(script: Any) -> None:
    assert is_silent("A15", products(script, [GOOD, ((4097, 4096, 4096), 400.0)]))


def test_the_kernels_of_the_costliest_operator_are_named(script: Any) -> None:
    finding = only("A17", products(script, [GOOD, ((4096, 4096, 2048), 740.0)]))
    kernel = ("nvjet_tst_128x256", 740_000)
    assert [(span.name, span.duration_ns) for span in finding.spans] == [kernel] * 3


def test_without_shapes_both_say_so(script: Any) -> None:
    trace = script().launch("gemm_tensorop", 10).trace(device=H100)
    assert "record_shapes" in verdict("A15", trace).missing
    assert "record_shapes" in verdict("A17", trace).missing


def tiled(script: Any, blocks: int, name: str = "ampere_bf16_gemm_128x128_tn") -> Trace:
    story = script()
    for _ in range(10):
        story.launch(name, 100)
    trace: Trace = story.trace(device=H100)
    count = 10
    grids = Grids(np.arange(1, 1 + count), np.full(count, blocks), np.full(count, 256))
    return replace(trace, detail=Detail(grids=grids))


def test_a_last_wave_that_is_nearly_empty_is_found(script: Any) -> None:
    # 140 blocks on 132 units: 1.06 waves take the time of two.
    finding = only("A16", tiled(script, 140))
    assert finding.gain_high_ratio == pytest.approx(1 - 140 / 264, abs=0.03)


@pytest.mark.parametrize(
    ("blocks", "name"), [(264, "ampere_bf16_gemm_128x128_tn"), (140, "nvjet_128x128_persistent")]
)
def test_full_waves_and_persistent_kernels_are_not(script: Any, blocks: int, name: str) -> None:
    assert is_silent("A16", tiled(script, blocks, name))


def test_a_busy_device_that_computes_little_is_found(script: Any) -> None:
    """139 GFLOP in 740 µs are 186 of 989.5 TFLOP/s: 19 %. In 185 µs it is 75 %."""
    slow = [((4096, 4096, 4096), 740.0)] * 3
    finding = only("A21", products(script, slow))
    assert any("18.8 %" in text or "18.7 %" in text for text in finding.evidence), finding.evidence
    assert is_silent("A21", products(script, [GOOD] * 3))
    assert verdict("A21", script().launch("k", 10).trace()).missing
