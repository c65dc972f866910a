from __future__ import annotations

from pathlib import Path

import pytest

from pilotlight.insights.job import job_of
from pilotlight.insights.roofline import roofline
from pilotlight.model.cost import cost_of
from pilotlight.model.hardware import gpus
from pilotlight.model.kernel_cost import cost_of_kernel
from pilotlight.trace.detail import Operator
from pilotlight.trace.reader import read_traces

COPY = "vectorized_elementwise_kernel<4, bfloat16_copy_kernel, std::array<char*, 2ul> >"
ADAM = "multi_tensor_apply_kernel<TensorListMetadata<4>, FusedAdamMathFunctor<float, 4, ...>>"


def test_an_elementwise_kernel_reads_and_writes_its_arrays() -> None:
    cost = cost_of_kernel(COPY, 1000, 128)
    assert cost is not None
    assert cost.bytes == 1000 * 128 * 4 * 2 * 2


def test_a_kernel_over_lists_of_tensors_passes_over_all_but_writes_no_gradients() -> None:
    cost = cost_of_kernel(ADAM, 10, 512)
    assert cost is not None
    assert cost.bytes == 10 * 65_536 * 4 * 7


@pytest.mark.parametrize(
    ("name", "blocks"), [("ampere_bf16_gemm_128x128", 100), (COPY, 0), ("mystery_kernel", 5)]
)
def test_what_the_grid_does_not_tell_has_no_cost(name: str, blocks: int) -> None:
    assert cost_of_kernel(name, blocks, 128) is None


@pytest.mark.parametrize(
    ("operator", "flops", "elements"),
    [
        (("aten::embedding", ((50_000, 64), (8, 16))), 0, 2 * 8 * 16 * 64),
        # Output 2 x 8 x 10 x 10 of 4 channels with 3 x 3: two products of the forward's size.
        (
            ("aten::convolution_backward", ((2, 8, 10, 10), (2, 4, 10, 10), (8, 4, 3, 3))),
            2 * 2 * 1600 * 4 * 9,
            2 * (1600 + 800 + 288),
        ),
    ],
)
def test_costs_by_hand(
    operator: tuple[str, tuple[tuple[int, ...], ...]], flops: float, elements: float
) -> None:
    name, shapes = operator
    cost = cost_of(Operator(name, shapes, ("float",) * len(shapes)))
    assert cost is not None
    assert (cost.flops, cost.bytes) == (flops, 4 * elements)


@pytest.mark.parametrize(("name", "gpu"), [("qwen_h100", "H100-SXM"), ("qwen_mi300", "MI300X")])
def test_guessed_kernels_of_the_real_traces_lie_under_the_roof(
    shared_data: Path, name: str, gpu: str
) -> None:
    (view,) = job_of(read_traces([shared_data / "kineto" / f"{name}.json.gz"]).traces).ranks
    table = roofline(view, view.trace.detail.operators, gpus()[gpu])
    long = [row for row in table.rows if row.total_ns > 10_000 * row.count]
    guessed = [row for row in long if row.confidence == "low"]
    assert guessed
    assert all(0.3 < row.roofline_ratio < 1.1 for row in guessed)
