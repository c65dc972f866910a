from __future__ import annotations

import pytest

from pilotlight.model.cost import Cost
from pilotlight.model.measured_cost import Measured, measured_of

MODEL = Cost(100.0, 50.0, "fp16")


def instruction(name: str) -> str:
    return f"smsp__sass_thread_inst_executed_op_{name}_pred_on.sum"


def test_a_fused_instruction_is_two_operations() -> None:
    found = measured_of({instruction("fadd"): 1, instruction("fmul"): 10, instruction("ffma"): 100})
    assert found == Measured(211, None, "fp32")


def test_tensor_cores_count_once_and_give_the_peak() -> None:
    metrics = {
        "sm__ops_path_tensor_src_bf16_dst_fp32.sum": 5000,
        "sm__ops_path_tensor_src_bf16_dst_fp32_sparsity_off.sum": 5000,
        instruction("fadd"): 7,
        "dram__bytes.sum": 640,
    }
    assert measured_of(metrics) == Measured(5007, 640, "bf16")


def test_bytes_are_those_of_both_ways() -> None:
    found = measured_of({"dram__bytes_read.sum": 3, "dram__bytes_write.sum": 4})
    assert found == Measured(None, 7)


def test_other_metrics_say_nothing() -> None:
    assert measured_of({"gpu__time_duration.sum": 10, "sm__cycles_active.avg": 4}) is None


@pytest.mark.parametrize(
    ("measured", "expected"),
    [
        (Measured(1.0, 2.0, "fp32"), Cost(1.0, 2.0, "fp32")),
        (Measured(None, 2.0), Cost(100.0, 2.0, "fp16")),
        (Measured(1.0, None, "fp32"), Cost(1.0, 50.0, "fp32")),
    ],
)
def test_what_was_not_measured_is_the_models(measured: Measured, expected: Cost) -> None:
    assert measured.cost(MODEL) == expected
