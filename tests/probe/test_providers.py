from __future__ import annotations

from pathlib import Path

import pytest

from pilotlight.probe.providers import provider_environment

NAMES = (
    "libpilotlight_cuda.so",
    "libpilotlight_nvtx.so",
    "libnccl-profiler-pilotlight.so",
    "libpilotlight_opencl.so",
)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name in NAMES:
        (tmp_path / name).touch()
    return tmp_path


def test_each_library_that_is_there_is_named(folder: Path) -> None:
    added = provider_environment({}, folder)
    assert set(added.values()) == {str(folder / name) for name in NAMES}
    assert set(added) == {
        *("CUDA_INJECTION64_PATH", "NVTX_INJECTION64_PATH"),
        *("NCCL_PROFILER_PLUGIN", "OPENCL_LAYERS"),
    }


def test_a_library_that_was_not_built_is_not_named(tmp_path: Path) -> None:
    assert provider_environment({}, tmp_path) == {}


def test_an_earlier_injection_is_chained(folder: Path) -> None:
    added = provider_environment({"NVTX_INJECTION64_PATH": "/usr/lib/libcupti.so"}, folder)
    assert added["PILOTLIGHT_CHAIN_NVTX_INJECTION64_PATH"] == "/usr/lib/libcupti.so"
    assert added["NVTX_INJECTION64_PATH"] == str(folder / "libpilotlight_nvtx.so")


def test_a_run_inside_a_run_does_not_chain_itself(folder: Path) -> None:
    again = provider_environment(provider_environment({}, folder), folder)
    assert not any(name.startswith("PILOTLIGHT_CHAIN") for name in again)
    assert again["OPENCL_LAYERS"] == str(folder / "libpilotlight_opencl.so")


def test_a_profiler_plugin_that_the_user_chose_stays(folder: Path) -> None:
    for chosen in ("inspector", "none", "/opt/plugin.so"):
        added = provider_environment({"NCCL_PROFILER_PLUGIN": chosen}, folder)
        assert "NCCL_PROFILER_PLUGIN" not in added


def test_other_layers_stay_before_ours(folder: Path) -> None:
    added = provider_environment({"OPENCL_LAYERS": "/a.so::/b.so"}, folder)
    assert added["OPENCL_LAYERS"] == f"/a.so:/b.so:{folder / 'libpilotlight_opencl.so'}"
