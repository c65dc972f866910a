from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from pilotlight.doctor.cupti import Answer
from pilotlight.doctor.providers import collectives, kernels, opencl, provider_checks, ranges

_WORKS = Answer(init=0, driver=13000, devices=8, cupti="libcupti.so.13", subscribed=0)


def test_every_check_answers_here() -> None:
    names = [check.what for check in provider_checks()]
    assert names == ["GPU kernels and copies", "NVTX ranges", "NCCL collectives", "OpenCL"]


@pytest.mark.parametrize(
    ("gpu", "driver", "cupti", "state", "said"),
    [
        (False, False, [], "ok", "no NVIDIA GPU"),
        (True, False, [], "limited", "--gpus all"),
        (True, True, [], "limited", "pip install nvidia-cuda-cupti"),
        (True, True, ["libcupti.so.13"], "ok", "8 GPUs"),
    ],
)
def test_kernels_say_what_is_missing_and_what_adds_it(
    gpu: bool, driver: bool, cupti: list[str], state: str, said: str
) -> None:
    check = kernels(gpu, driver, cupti, {}, lambda _: _WORKS)
    assert check.state == state and said in check.detail + check.fix


@pytest.mark.parametrize(
    ("answer", "said", "fix"),
    [
        (None, "does not answer", "nvidia-smi"),
        (replace(_WORKS, init=100), "cuInit says 100", "CUDA_VISIBLE_DEVICES"),
        (replace(_WORKS, init=802), "not ready", "nvidia-fabricmanager"),
        (replace(_WORKS, init=7), "cuInit says 7", "dmesg"),
        (replace(_WORKS, subscribed=39), "another tool", "unset NVTX_INJECTION64_PATH"),
        (replace(_WORKS, subscribed=999), "CUDA 13.0", "nvidia-cuda-cupti==13.0.*"),
        (
            replace(_WORKS, driver=12080, subscribed=15),
            "CUDA 12.8",
            "nvidia-cuda-cupti-cu12==12.8.*",
        ),
        (replace(_WORKS, subscribed=43), "MIG", "nvidia-smi -i GPU -mig 0"),
        (replace(_WORKS, subscribed=35), "Restrict", "NVreg_RestrictProfilingToAdminUsers=0"),
        (replace(_WORKS, subscribed=47), "MPS", "echo quit | nvidia-cuda-mps-control"),
        (replace(_WORKS, subscribed=4711), "error 4711", "docs/gpu.md"),
    ],
)
def test_kernels_say_what_cuda_and_cupti_answer(answer: Answer | None, said: str, fix: str) -> None:
    environment = {"NVTX_INJECTION64_PATH": "libcupti.so"}
    check = kernels(True, True, ["libcupti.so.13"], environment, lambda _: answer)
    assert check.state == "limited"
    assert said in check.detail and fix in check.fix


def test_a_machine_with_a_driver_and_no_gpu_lacks_nothing() -> None:
    check = kernels(False, True, ["libcupti.so.13"], {}, lambda _: replace(_WORKS, init=100))
    assert check.state == "ok" and "no NVIDIA GPU" in check.detail


@pytest.mark.parametrize(
    ("version", "state", "said"),
    [
        (None, "ok", "no NCCL"),
        (22105, "limited", "NCCL 2.23.4"),
        (22304, "limited", "2.28.3"),
        (22703, "limited", "2.28.3"),
        (22907, "ok", "NCCL 2.29.7: recorded as they are enqueued; GPU times on demand"),
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


def test_tools_that_were_there_first_are_named(tmp_path: Path) -> None:
    tool = tmp_path / "tool.so"
    tool.touch()
    assert f"{tool} is loaded too" in ranges({"NVTX_INJECTION64_PATH": str(tool)}).detail
    assert "tool.so is loaded too" in ranges({"NVTX_INJECTION64_PATH": "tool.so"}).detail


def test_a_tool_that_is_not_there_is_named_as_missing(tmp_path: Path) -> None:
    check = ranges({"NVTX_INJECTION64_PATH": str(tmp_path / "gone.so")})
    assert check.state == "limited" and "gone.so, which is not there" in check.detail
    assert check.fix == "unset NVTX_INJECTION64_PATH"
    assert "after /x.so" in opencl(True, {"OPENCL_LAYERS": "/x.so"}).detail


def test_an_image_that_makes_cupti_the_tool_for_ranges_is_told() -> None:
    check = ranges({"NVTX_INJECTION64_PATH": "/usr/local/cuda/lib64/libcupti.so.13"})
    assert check.state == "limited" and check.fix == "unset NVTX_INJECTION64_PATH"
