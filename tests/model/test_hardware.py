from __future__ import annotations

import pytest

from pilotlight.model.hardware import find_gpu, gpus


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("NVIDIA H100 80GB HBM3", "H100-SXM"),
        ("NVIDIA H100 PCIe", "H100-PCIe"),
        ("NVIDIA A100-SXM4-80GB", "A100-80-SXM"),
        ("NVIDIA A100-PG509-200", "A100-40-SXM"),
        ("NVIDIA A100 80GB PCIe", "A100-80-PCIe"),
        ("Tesla V100-DGXS-32GB", "V100-SXM2"),
        ("AMD Instinct MI300X VF", "MI300X"),
        ("NVIDIA GB200", "GB200"),
        ("NVIDIA L40S", "L40S"),
        ("NVIDIA L4", "L4"),
        ("h200-sxm", "H200-SXM"),
        ("NVIDIA GH200 480GB", "GH200"),
        ("NVIDIA H20", "H20"),
        ("NVIDIA H800", "H100-SXM"),
        ("NVIDIA A40", "A40"),
        ("NVIDIA GeForce RTX 3090", "RTX-3090"),
        ("NVIDIA GeForce RTX 5090", "RTX-5090"),
        ("AMD Instinct MI250X / MI250", "MI250X"),
    ],
)
def test_names_of_drivers_are_known(text: str, name: str) -> None:
    found = find_gpu(text)
    assert found is not None and found.name == name


def test_an_unknown_device_is_not_guessed() -> None:
    assert find_gpu("Abacus 3000") is None
    assert find_gpu("NVIDIA GeForce RTX 4090 Laptop GPU") is None


def test_a_card_of_two_dies_is_two_devices() -> None:
    gpu = find_gpu("MI250X")
    assert gpu is not None
    assert (gpu.peak("bf16"), gpu.peak("memory_gb"), gpu.peak("units")) == (191.5, 64, 110)


def test_every_figure_is_positive_and_marked_by_its_source() -> None:
    for gpu in gpus().values():
        for figure in gpu.figures.values():
            assert figure.value > 0
            assert figure.mark in ("r", "p", "m", "")


def test_the_achievable_is_below_the_peak() -> None:
    for gpu in gpus().values():
        for column in ("bf16", "fp16", "memory_gb_per_s"):
            peak, achievable = gpu.peak(column), gpu.achievable(column)
            assert (peak is None) == (achievable is None)
            assert peak is None or achievable is None or achievable < peak


def test_the_peak_of_an_h100_is_its_units_times_their_rate() -> None:
    gpu = find_gpu("H100-SXM")
    assert gpu is not None
    assert gpu.peak("bf16") == pytest.approx(132 * 4 * 1024 * 1.83e9 / 1e12, rel=0.001)
