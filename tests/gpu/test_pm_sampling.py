"""PM sampling on demand: `pilotlight capture JOB --gpu pm`, on the simulated GPU."""

from __future__ import annotations

import json
import subprocess
import time

import numpy as np
import pytest
from tests.gpu.conftest import wait_for_gpu
from tests.gpu.sampled_job import PILOTLIGHT, Start, capture, sample_until, start

from pilotlight.recording.recording import Recording
from pilotlight.report.hardware import PREFIX, units_of

__all__ = ["start"]  # a fixture

# Never idle for long: half of the time a matrix product, half of it something else.
_HALF = """
gpu = Gpu()
while True:
    for name in ("gemm", "copy_kernel"):
        gpu.kernel(name, 5_000_000)
    gpu.sync()
"""


def test_a_capture_says_how_busy_the_units_of_the_gpu_are(start: Start) -> None:
    job = start(_HALF)
    done = [capture("pm", "--json")]
    # On a busy machine the first windows may pass without a launch.
    for _ in range(10):
        if done[-1].returncode == 0:
            break
        done.append(capture("pm", "--json"))
    told = json.loads(done[-1].stdout)
    (coverage,) = told["coverage"]
    assert coverage["tier"] == "pm" and 0 < coverage["sampling"]["ratio"] < 1
    assert coverage["records_ratio"] > 0  # of those who asked for records
    found = {one["name"]: one for one in told["hardware"]}
    assert {one["device"] for one in told["hardware"]} == {"gpu0"}
    # 80 % of the tensor units and 90 % of the memory, each for the half of the kernels' time.
    busy = found["sm_active"]["mean"]
    assert 0 < busy <= 100 and found["sm_active"]["samples"] > 0
    assert found["tensor_active"]["mean"] + found["dram_active"]["mean"] * 8 / 9 == pytest.approx(
        busy * 0.8, rel=1e-6
    )
    assert found["tensor_active"]["max"] == pytest.approx(80) and "pcie_rx_bytes_per_s" in found
    report = subprocess.run(
        [*PILOTLIGHT, "report", told["folder"]], capture_output=True, text=True, timeout=60
    )
    assert "Units of the GPU (PM samples)" in report.stdout
    assert "tensor units are busy" in report.stdout
    assert job.poll() is None  # the simulated CUPTI had nothing to object to


def test_samples_lie_in_the_time_in_which_they_were_taken(start: Start) -> None:
    """Also where a device has no trigger by time. Its own clock is days ahead."""
    job = start(_HALF, PILOTLIGHT_SIM_CHIP="GA100")
    begin_ns = time.monotonic_ns()
    folder = sample_until("pm", lambda sampling: sampling["samples"] > 20)
    wait_for_gpu(lambda gpu: gpu["tier"] == "records" and gpu["records_ratio"] > 0)
    recording = Recording.open(folder)
    counters = recording.detail("counters")
    numbers = recording.names.find(counters["process"], counters["name"])
    wanted = recording.names.texts.index(f"{PREFIX}gpu0/sm_active")
    times = np.sort(counters["time_ns"][numbers == wanted])
    assert begin_ns < times[0] and times[-1] < time.monotonic_ns()
    assert np.median(np.diff(times)) == pytest.approx(1e6, rel=0.1)  # a sample each millisecond
    assert job.poll() is None


def test_a_window_that_the_device_had_no_room_for_is_counted(start: Start) -> None:
    """On a chip with fewer metrics, by the newest interface."""
    job = start(_HALF, cupti=130401, PILOTLIGHT_SIM_TRAPS="pm_full", PILOTLIGHT_SIM_CHIP="TU102")
    folder = sample_until("pm", lambda one: one["dropped"] > 0 and one["samples"] > 20)
    names = {one.name for one in units_of(Recording.open(folder))}
    assert "sm_active" in names and "tensor_active" not in names
    assert job.poll() is None
