"""NVIDIA's own libcupti, which needs no GPU for it, knows the metrics that we ask for."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest
from tests.gpu.wheels import libraries

NATIVE = Path(__file__).parents[2] / "native"
_TELLING = {"sm_active", "tensor_active", "dram_active", "sm_occupancy", "issue_active"}
_MEMORY = {"dram_read", "dram_write"}
_OF_KERNELS = {"duration_ns", "tensor_active", "dram_active", "sm_occupancy", "dram_bytes"}
_LINKS = {"nvlink_rx_bytes_per_s", "nvlink_tx_bytes_per_s"}


@pytest.fixture(scope="module")
def check(tmp_path_factory: pytest.TempPathFactory) -> Path:
    compiler = shutil.which("g++") or shutil.which("c++")
    if compiler is None:
        pytest.skip("no C++ compiler")
    program = tmp_path_factory.mktemp("metrics") / "check"
    sources = (
        *("tests/metrics_check.cpp", "cuda/metric_set.cpp"),
        *("cuda/cupti_library.cpp", "cuda/cupti_places.cpp"),
        "cuda/record_fields.cpp",
        "provider/attach.cpp",
    )
    subprocess.run(
        [
            *(compiler, "-std=c++17", f"-I{NATIVE}", "-o", str(program)),
            *(*(str(NATIVE / source) for source in sources), "-ldl"),
        ],
        check=True,
    )
    return program


def test_each_chip_has_what_tells_most_of_it_in_one_pass(check: Path) -> None:
    folder = libraries("nvidia-cuda-cupti-cu12==12.9.79")
    done = subprocess.run(
        [str(check), "GA100", "GA102", "AD102", "GH100", "GB100", "TU102", "GX900"],
        env={**os.environ, "PILOTLIGHT_CUPTI": str(folder / "libcupti.so.12")},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    lines = [line.split() for line in done.stdout.splitlines()]
    found = {(way, chip): set(labels) for way, chip, result, *labels in lines if result == "0"}
    for chip in ("GA100", "GA102", "AD102", "GH100", "GB100"):
        assert found["pm", chip] >= _TELLING | _MEMORY, chip
        assert found["range", chip] >= _OF_KERNELS, chip
    for chip in ("GA100", "GH100", "GB100"):
        assert found["pm", chip] >= _LINKS, chip
    # Older: it has no such counter of its tensor units, and too little room for its memory.
    assert "sm_active" in found["pm", "TU102"] and "tensor_active" not in found["pm", "TU102"]
    # What it does not know it refuses: CUPTI_ERROR_INVALID_CHIP_NAME, by our name for it.
    assert lines[-2:] == [["pm", "GX900", "46"], ["range", "GX900", "46"]]
