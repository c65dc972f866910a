from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pilotlight.model.cost import cost_of
from pilotlight.trace.detail import Operator

BF16 = "c10::BFloat16"


def operator(name: str, *shapes: tuple[int, ...], kind: str = BF16) -> Operator:
    return Operator(f"aten::{name}", shapes, (kind,) * len(shapes))


def test_a_matrix_product_costs_two_operations_a_term() -> None:
    cost = cost_of(operator("mm", (10, 20), (20, 30)))
    assert cost is not None
    assert (cost.flops, cost.bytes, cost.peak) == (12_000, 2 * (200 + 600 + 300), "bf16")


def test_the_bias_of_addmm_is_not_a_factor() -> None:
    plain, biased = operator("mm", (8, 4), (4, 2)), operator("addmm", (2,), (8, 4), (4, 2))
    assert cost_of(plain) == cost_of(biased)


@pytest.mark.parametrize(
    ("name", "kind", "peak"),
    [
        ("_int_mm", "signed char", "int8"),
        ("_scaled_mm", "c10::Float8_e4m3fn", "fp8"),
        ("_scaled_mm", "c10::Float8_e4m3fnuz", "fp8"),
    ],
)
def test_products_of_bytes_run_at_their_own_peak(name: str, kind: str, peak: str) -> None:
    cost = cost_of(operator(name, (10, 20), (20, 30), kind=kind))
    assert cost is not None
    assert (cost.flops, cost.bytes, cost.peak) == (12_000, 200 + 600 + 300, peak)


def test_other_operators_on_bytes_are_not_products() -> None:
    assert cost_of(operator("add", (10, 20), (10, 20), kind="signed char")) is None


def test_a_batch_multiplies_the_product() -> None:
    one, five = (
        cost_of(operator("bmm", (1, 8, 4), (1, 4, 2))),
        cost_of(operator("bmm", (5, 8, 4), (5, 4, 2))),
    )
    assert one is not None and five is not None
    assert (five.flops, five.bytes) == (5 * one.flops, 5 * one.bytes)


def test_fused_attention_moves_no_scores() -> None:
    heads = ((2, 4, 100, 64),) * 3
    cost = cost_of(operator("_scaled_dot_product_flash_attention", *heads))
    assert cost is not None
    assert cost.flops == 4 * 2 * 4 * 100 * 100 * 64
    assert cost.bytes == 2 * 4 * (2 * 4 * 100 * 64)


def test_a_pointwise_convolution_is_a_matrix_product() -> None:
    cost = cost_of(operator("convolution", (2, 16, 5, 5), (32, 16, 1, 1), kind="float"))
    assert cost is not None
    assert (cost.flops, cost.peak) == (2 * 2 * 25 * 16 * 32, "fp32")


def convolution(*values: tuple[int, ...], name: str = "convolution") -> float | None:
    shapes = ((2, 3, 224, 224), (64, 3, 7, 7))
    cost = cost_of(Operator(f"aten::{name}", shapes, ("float", "float"), ((), (), *values)))
    return None if cost is None else cost.flops / (2 * 2 * 64 * 3 * 7 * 7)


def test_a_convolution_is_counted_at_the_places_that_its_stride_leaves() -> None:
    # (224 + 2 * 3 - 7) // 2 + 1 = 112 places a side; with dilation 2 the kernel is 13 wide: 109.
    assert convolution((), (2, 2), (3, 3), (1, 1)) == 112 * 112
    assert convolution((), (2, 2), (3, 3), (2, 2)) == 109 * 109
    assert convolution((), (2,), (3,), (1,)) == 112 * 112
    assert convolution((3, 3), (2, 2), (1, 1), name="cudnn_convolution") == 112 * 112
    assert convolution() == 224 * 224


def test_a_transposed_convolution_is_counted_at_the_places_of_its_input() -> None:
    assert convolution((), (2, 2), (3, 3), (1, 1), (1,)) == 224 * 224


def test_settings_that_cannot_be_give_no_cost() -> None:
    assert convolution((), (2, 2), (0, 0), (99, 99)) is None
    assert convolution((), (2, 2), (0,), ()) == 224 * 224


@pytest.mark.parametrize(
    "unknown",
    [
        operator("mystery", (2, 2)),
        operator("mm", (2, 2), (2, 2), kind="Scalar"),
        operator("mm"),
        operator("mm", (2, 2)),
        operator("mm", (2, 2, 2), (2, 2)),
        operator("add", ()),
    ],
)
def test_without_a_model_or_shapes_there_is_no_cost(unknown: Operator) -> None:
    assert cost_of(unknown) is None


names = st.sampled_from(["mm", "addmm", "bmm", "convolution", "add", "sum", "copy_", "_softmax"])
shapes = st.lists(st.lists(st.integers(0, 9), max_size=5).map(tuple), max_size=4)


@given(names, shapes)
def test_any_shapes_give_a_sensible_cost_or_none(name: str, given: list[tuple[int, ...]]) -> None:
    cost = cost_of(operator(name, *given))
    assert cost is None or (cost.flops >= 0 and cost.bytes > 0)


@pytest.mark.parametrize(
    ("name", "place"),
    [
        ("aten::_scaled_dot_product_flash_attention", 4),
        ("aten::_scaled_dot_product_efficient_attention", 6),
        ("FlashAttnFunc", 5),
    ],
)
def test_causal_attention_computes_half(name: str, place: int) -> None:
    shapes = ((2, 8, 8, 64),) * 3
    values = tuple((1,) if i == place else () for i in range(8))
    whole = cost_of(Operator(name, shapes, ("c10::BFloat16",) * 3))
    half = cost_of(Operator(name, shapes, ("c10::BFloat16",) * 3, values))
    assert whole is not None and half is not None
    assert (half.flops, half.bytes) == (whole.flops / 2, whole.bytes)
