from __future__ import annotations

import pytest

from pilotlight.doctor.providers import collectives, kernels, opencl, provider_checks, ranges


def test_every_check_answers_here() -> None:
    names = [check.what for check in provider_checks()]
    assert names == ["GPU kernels and copies", "NVTX ranges", "NCCL collectives", "OpenCL"]


@pytest.mark.parametrize(
    ("gpu", "driver", "cupti", "state", "said"),
    [
        (False, False, None, "ok", "no NVIDIA GPU"),
        (True, False, None, "limited", "--gpus all"),
        (True, True, None, "limited", "pip install nvidia-cuda-cupti"),
        (True, True, "libcupti.so.13", "ok", "libcupti.so.13"),
    ],
)
def test_kernels_say_what_is_missing_and_what_adds_it(
    gpu: bool, driver: bool, cupti: str | None, state: str, said: str
) -> None:
    check = kernels(gpu, driver, cupti, {})
    assert check.state == state and said in check.detail + check.fix


@pytest.mark.parametrize(
    ("version", "state", "said"),
    [
        (None, "ok", "no NCCL"),
        (22105, "limited", "NCCL 2.23.4"),
        (22304, "limited", "2.26.2"),
        (22907, "ok", "NCCL 2.29.7: recorded with GPU times"),
        (23102, "limited", "PILOTLIGHT_NCCL_KERNELS=1"),
    ],
)
def test_collectives_depend_on_the_version_of_nccl(
    version: int | None, state: str, said: str
) -> None:
    check = collectives(version, {})
    assert check.state == state and said in check.detail + check.fix


def test_a_plugin_of_the_users_is_named() -> None:
    check = collectives(22907, {"NCCL_PROFILER_PLUGIN": "inspector"})
    assert check.state == "limited" and "inspector" in check.detail


def test_tools_that_were_there_first_are_named() -> None:
    assert "/cupti.so is loaded too" in ranges({"NVTX_INJECTION64_PATH": "/cupti.so"}).detail
    assert "after /x.so" in opencl(True, {"OPENCL_LAYERS": "/x.so"}).detail
