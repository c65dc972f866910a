"""The range profiler on demand: `pilotlight capture JOB --gpu range`, on the simulated GPU."""

from __future__ import annotations

import json
import subprocess

import pytest
from tests.gpu.conftest import wait_for_gpu
from tests.gpu.sampled_job import (
    PILOTLIGHT,
    SHORT_CONTEXTS,
    Start,
    capture,
    sample_until,
    start,
)

from pilotlight.recording.recording import Recording
from pilotlight.report.kernel_use import kernels_of

__all__ = ["start"]  # a fixture

# The half of the matrix products by the runtime, whose calls come to the driver as well.
_KINDS = """
gpu = Gpu()
while True:
    gpu.kernel("gemm", 300_000)
    gpu.runtime_kernel("gemm", 100_000)
    gpu.kernel("copy_kernel", 100_000)
    time.sleep(0.001)
"""


def test_a_capture_says_what_each_kernel_asks_of_the_gpu(start: Start) -> None:
    job = start(_KINDS)
    # On a busy machine the first windows may pass without a launch.
    done = [capture("range", "--json")]
    for _ in range(10):
        if done[-1].returncode == 0:
            break
        done.append(capture("range", "--json"))
    told = json.loads(done[-1].stdout)
    (coverage,) = told["coverage"]
    assert coverage["tier"] == "range" and 0 < coverage["sampling"]["ratio"] < 1
    assert coverage["records_ratio"] == 0  # it has the process for itself
    found = {one["kernel"]: one for one in told["kernels"]}
    # A launch may be under way when a window begins or ends: whose values they are is not known.
    assert set(found) - {"(not known)"} == {"gemm", "copy_kernel"}
    assert found["gemm"]["means"]["tensor_active"] == pytest.approx(80)
    assert found["gemm"]["means"]["dram_active"] == 0
    assert found["copy_kernel"]["means"]["dram_active"] == pytest.approx(90)
    assert found["copy_kernel"]["means"]["dram_bytes"] == pytest.approx(1e6)
    assert found["copy_kernel"]["mean_ns"] == pytest.approx(100_000)
    report = subprocess.run(
        [*PILOTLIGHT, "report", told["folder"]], capture_output=True, text=True, timeout=60
    )
    assert "Kernels by hardware metrics" in report.stdout and "copy_kernel" in report.stdout
    wait_for_gpu(lambda gpu: gpu["tier"] == "records" and gpu["records_ratio"] > 0)
    assert job.poll() is None  # the simulated CUPTI had nothing to object to


def test_contexts_come_and_go_while_they_are_profiled(start: Start) -> None:
    """By the newest interface."""
    job = start(SHORT_CONTEXTS, cupti=130401)
    folder = sample_until("range", lambda sampling: sampling["samples"] > 100)
    wait_for_gpu(lambda gpu: gpu["tier"] == "records" and gpu["records_ratio"] > 0)
    assert "gemm" in [one.kernel for one in kernels_of(Recording.open(folder))]
    assert job.poll() is None
