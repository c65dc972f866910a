from __future__ import annotations

from pathlib import Path

import pytest

from pilotlight.insights.job import job_of
from pilotlight.insights.roofline import roofline
from pilotlight.model.cost import cost_of
from pilotlight.model.hardware import gpus
from pilotlight.model.kernel_cost import Grid, cost_of_kernel
from pilotlight.trace.detail import Operator
from pilotlight.trace.reader import read_traces

COPY = "vectorized_elementwise_kernel<4, bfloat16_copy_kernel, std::array<char*, 2ul> >"
ADAM = "multi_tensor_apply_kernel<TensorListMetadata<4>, FusedAdamMathFunctor<float, 4, ...>>"


def test_an_elementwise_kernel_reads_and_writes_its_arrays() -> None:
    cost = cost_of_kernel(COPY, Grid(1000, 128))
    assert cost is not None
    assert cost.bytes == 1000 * 128 * 4 * 2 * 2


def test_a_kernel_over_lists_of_tensors_passes_over_all_but_writes_no_gradients() -> None:
    cost = cost_of_kernel(ADAM, Grid(10, 512))
    assert cost is not None
    assert cost.bytes == 10 * 65_536 * 4 * 7


@pytest.mark.parametrize(
    ("name", "blocks"), [("ampere_bf16_gemm_128x128", 100), (COPY, 0), ("mystery_kernel", 5)]
)
def test_what_the_grid_does_not_tell_has_no_cost(name: str, blocks: int) -> None:
    assert cost_of_kernel(name, Grid(blocks, 128)) is None


BACKWARD = "bwd_dq_dk_dv_loop_seqk_parallel_kernel"
TRAITS = "kernel_traits<64, 128, 32, 4, false, cutlass::bfloat16_t, Flash_kernel_traits<64, 1> >"


@pytest.mark.parametrize(
    ("name", "length", "products"),
    [
        (f"void a::flash_fwd_kernel<a::Flash_fwd_{TRAITS}, false, false, true>", 4.5 * 128, 2),
        (f"flash_fwd_kernel<Flash_fwd_{TRAITS}, false, true, false>(p)", 4.5 * 128, 1),
        (f"flash_{BACKWARD}<Flash_bwd_{TRAITS}, true, false>", 4.5 * 32, 5),
    ],
)
def test_flash_attention_tells_its_work_by_tile_and_grid(
    name: str, length: float, products: float
) -> None:
    cost = cost_of_kernel(name, Grid(5 * 6, 128, along=5))
    assert cost is not None
    assert cost.flops == products * 2 * 6 * length**2 * 64
    assert cost.bytes == (2 if products == 5 else 1) * 4 * 6 * length * 64 * 2
    assert cost_of_kernel(name, Grid(5 * 6, 128)) is None


def test_the_guess_for_a_real_flash_kernel_is_near_its_shapes(shared_data: Path) -> None:
    (trace,) = read_traces([shared_data / "kineto" / "qwen_h100.json.gz"]).traces
    name = next(name for name in trace.names if "flash_fwd_kernel" in name)
    number = trace.names.index(name)
    grids = trace.detail.grids
    row = int(
        (grids.correlation == trace.spans.correlation[trace.spans.name == number][0]).argmax()
    )
    grid = Grid(int(grids.blocks[row]), int(grids.threads[row]), int(grids.along[row]))
    cost = cost_of_kernel(name, grid)
    assert cost is not None
    # 16 sequences of 559, 16 heads of 64; causal.
    assert cost.flops == pytest.approx(2 * 16 * 16 * 559**2 * 64, rel=0.1)


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
        (("aten::linear", ((2, 3, 8), (5, 8))), 2 * 6 * 8 * 5, 6 * 8 + 8 * 5 + 6 * 5),
        (("aten::mv", ((6, 8), (8,))), 2 * 6 * 8, 6 * 8 + 8 + 6),
        # Two queries of four heads, three keys of two: 4 · 1 · 4 · 2 · 3 · 16.
        (
            ("FlashAttnFunc", ((1, 2, 4, 16), (1, 3, 2, 16))),
            4 * 4 * 2 * 3 * 16,
            2 * 16 * (4 * 2 + 2 * 3),
        ),
        (("aten::_embedding_bag", ((100, 8), (30,), (10,))), 30 * 8, 40 * 8),
        (("aten::embedding_dense_backward", ((4, 6, 8), (4, 6))), 192, 3 * 192),
        (("aten::gather", ((10, 10), (), (5, 10))), 0, 2 * 50),
        (("aten::cumsum", ((7, 9),)), 63, 2 * 63),
        (("aten::zero_", ((7, 9),)), 0, 63),
        # Given the tensor that it writes, too.
        (("aten::clamp_min", ((7, 9), (), (7, 9))), 63, 2 * 63),
        (("aten::where", ((7, 9), (7, 9), (9,))), 63, 63 + 63 + 9 + 63),
        (("aten::native_group_norm", ((2, 8, 5), (8,))), 8 * 80, 2 * 80),
    ],
)
def test_costs_by_hand(
    operator: tuple[str, tuple[tuple[int, ...], ...]], flops: float, elements: float
) -> None:
    name, shapes = operator
    cost = cost_of(Operator(name, shapes, ("float",) * len(shapes)))
    assert cost is not None
    assert (cost.flops, cost.bytes) == (flops, 4 * elements)


def test_guessed_kernels_of_a_real_trace_lie_under_the_roof(shared_data: Path) -> None:
    (view,) = job_of(read_traces([shared_data / "kineto" / "qwen_h100.json.gz"]).traces).ranks
    table = roofline(view, view.trace.detail.operators, gpus()["H100-SXM"])
    long = [row for row in table.rows if row.total_ns > 10_000 * row.count]
    guessed = [row for row in long if row.confidence == "low"]
    assert guessed
    assert all(row.roofline_ratio < 1.1 for row in guessed)
    # Attention over 559 keys is short, and bound by neither.
    assert all(row.roofline_ratio > 0.3 for row in guessed if "flash" not in row.operator)


STRIDED = "elementwise_kernel<128, 4, gpu_kernel_impl_nocast<BinaryFunctor<float, float, float>>>"
CASTING = "elementwise_kernel<128, 4, gpu_kernel_impl<direct_copy_kernel_cuda lambda(float)>>"


@pytest.mark.parametrize(
    ("name", "grid", "size"),
    [
        (STRIDED, Grid(10, 128), 10 * 128 * 4 * 2 * 4),
        (f"index_{STRIDED}", Grid(10, 128), 10 * 128 * 4 * 2 * 4),
        # 4 warps a block, a row each, of 768 elements as a guess between 512 and 1024.
        ("softmax_warp_forward<c10::BFloat16, c10::BFloat16, float, 10, false, false>",
         Grid(50, 128), 50 * 4 * 768 * 2 * 2),
        # Rows of up to 64: two a warp, 48 elements as a guess; reads two tensors, writes one.
        ("softmax_warp_backward<float, float, float, 6, true, false>",
         Grid(50, 128), 50 * 4 * 2 * 48 * 3 * 4),
        ("vectorized_gather_kernel<16, long>", Grid(100, 256), 100 * 256 * 16 * 2),
    ],
)  # fmt: skip
def test_bytes_by_name_and_grid(name: str, grid: Grid, size: float) -> None:
    cost = cost_of_kernel(name, grid)
    assert cost is not None
    assert cost.bytes == size


def test_types_of_a_kernel_that_casts_are_not_told() -> None:
    assert cost_of_kernel(CASTING, Grid(10, 128)) is None
