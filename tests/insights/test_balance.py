from __future__ import annotations

import pytest
from tests.insights.telling import first, is_silent, only, simulated, verdict

DEEP = {"pipeline": 4, "micro_batches": 8, "layers": 4, "ranks": 8}


def test_a_stage_with_more_work_is_found_with_its_ranks() -> None:
    traces = simulated("stage_imbalance", 5, 1.5, **DEEP)
    finding = only("A28", *traces)
    assert finding.place == "ranks 4, 5"
    assert "vocabulary" in " ".join(finding.evidence)
    assert first(*traces) == ("stage_imbalance", 4)


def test_equal_stages_are_balanced_and_their_bubble_is_no_finding() -> None:
    assert is_silent("A28", *simulated(**DEEP))


def test_one_slow_rank_is_no_unequal_stage() -> None:
    traces = simulated("slow_gpu", 4, 1.5, **DEEP)
    assert is_silent("A28", *traces)
    assert first(*traces) == ("slow_gpu", 4)


@pytest.mark.parametrize("kind", ["slow_gpu", "throttle"])
def test_a_slow_device_that_is_a_stage_alone_is_a_slow_device(kind: str) -> None:
    traces = simulated(kind, 1, 1.5, **{**DEEP, "ranks": 4})
    assert is_silent("A28", *traces)
    assert first(*traces) == ("slow_gpu", 1)


def test_without_transfers_stages_are_not_known() -> None:
    assert "stages" in verdict("A28", *simulated()).missing


def test_unequal_samples_are_found_and_no_rank_is_blamed_for_its_device() -> None:
    traces = simulated("length_imbalance", factor=1.3, steps=10)
    assert only("A29", *traces).gain_ratio == pytest.approx(0.2, abs=0.06)
    assert first(*traces)[0] == "imbalance"


@pytest.mark.parametrize("kind", ["", "slow_gpu", "batch_size", "eval_step"])
def test_steady_differences_and_common_changes_are_no_unequal_samples(kind: str) -> None:
    assert is_silent("A29", *simulated(kind, 1, 1.4, steps=10))


def test_the_rank_with_the_hot_expert_is_found() -> None:
    traces = simulated("moe_skew", 3, 1.5, ranks=8, experts=4, exchange_us=4.0)
    assert first(*traces) == ("moe_imbalance", 3)


@pytest.mark.parametrize("kind", ["throttle", "slow_gpu"])
def test_a_slow_device_is_no_matter_of_its_experts(kind: str) -> None:
    traces = simulated(kind, 3, 2.0, ranks=8, experts=8, exchange_us=4.0)
    assert is_silent("A30", *traces)
    assert first(*traces) == ("slow_gpu", 3)


def test_equal_experts_are_balanced() -> None:
    assert is_silent("A30", *simulated(ranks=8, experts=4))
    assert "experts" in verdict("A30", *simulated()).missing
