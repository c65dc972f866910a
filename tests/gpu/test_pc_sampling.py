"""PC sampling on demand: `pilotlight capture JOB --gpu pc`, on the simulated GPU."""

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
from pilotlight.report.stalls import stalls_of

__all__ = ["start"]  # a fixture

_TWO_CONTEXTS = """
gpu = Gpu()
other = ctypes.c_void_p()
gpu.library.cuCtxCreate_v2(ctypes.byref(other), 0, 0)
gpu.library.cuCtxSetCurrent(gpu.context)
while True:
    for context in (gpu.context, other):
        gpu.library.cuCtxSetCurrent(context)
        gpu.library.cuLaunchKernel(
            gpu.function("gemm"), 60_000, 1, 1, 1, 1, 1, 0, gpu.stream(0), 0, 0
        )
    time.sleep(0.001)
"""


def test_a_capture_says_why_kernels_stall(start: Start) -> None:
    start()
    # On a busy machine the first windows may pass without a launch.
    done = [capture("pc", "--json")]
    for _ in range(10):
        if done[-1].returncode == 0:
            break
        done.append(capture("pc", "--json"))
    told = json.loads(done[-1].stdout)
    (coverage,) = told["coverage"]
    assert coverage["tier"] == "pc" and 0 < coverage["sampling"]["ratio"] < 1
    assert coverage["records_ratio"] > 0  # of those who asked for records
    (function,) = told["stalls"]
    assert function["function"] == "gemm" and function["samples"] > 0
    found = {stall["reason"]: stall for stall in function["stalls"]}
    assert set(found) == {"long_scoreboard", "math_pipe_throttle", "barrier"}
    assert found["long_scoreboard"]["ratio"] == pytest.approx(1 / 2)
    assert found["barrier"]["ratio"] == pytest.approx(1 / 6)
    assert found["math_pipe_throttle"]["hottest_offset"] == 0x20
    report = subprocess.run(
        [*PILOTLIGHT, "report", told["folder"]], capture_output=True, text=True, timeout=60
    )
    assert "Why kernels stall" in report.stdout and "waits for global memory 50%" in report.stdout
    analysis = subprocess.run(
        [*PILOTLIGHT, "analyze", "--json", "--table", "stalls", told["folder"]],
        capture_output=True,
        text=True,
        timeout=60,
    )
    (row,) = json.loads(analysis.stdout)
    assert row["function"] == "gemm" and row["stalls"][0]["reason"] == "long_scoreboard"


@pytest.mark.parametrize("program", [_TWO_CONTEXTS, SHORT_CONTEXTS], ids=["two", "short"])
def test_contexts_come_and_go_while_they_are_sampled(start: Start, program: str) -> None:
    job = start(program)
    folder = sample_until("pc", lambda sampling: sampling["samples"] > 300)
    assert [one.function for one in stalls_of(Recording.open(folder))] == ["gemm"]
    wait_for_gpu(lambda gpu: gpu["tier"] == "records")
    assert job.poll() is None  # the simulated CUPTI had nothing to object to


@pytest.mark.parametrize("cupti", [18, 130401])
def test_every_version_samples_and_goes_back_to_records(start: Start, cupti: int) -> None:
    job = start(cupti=cupti)
    folder = sample_until("pc", lambda sampling: sampling["samples"] > 60)
    (function,) = stalls_of(Recording.open(folder))
    assert function.stalls[0].reason == "long_scoreboard"
    wait_for_gpu(lambda gpu: gpu["tier"] == "records" and gpu["records_ratio"] > 0)
    assert job.poll() is None


def test_a_second_capture_samples_again(start: Start) -> None:
    job = start()
    first = sample_until("pc", lambda sampling: sampling["samples"] > 60)
    samples = sum(one.samples for one in stalls_of(Recording.open(first)))
    wait_for_gpu(lambda gpu: gpu["tier"] == "records" and gpu["records_ratio"] > 0)
    second = sample_until("pc", lambda sampling: sampling["samples"] > samples + 60)
    assert sum(one.samples for one in stalls_of(Recording.open(second))) > samples + 60
    assert job.poll() is None


def test_samples_that_the_device_dropped_are_counted(start: Start) -> None:
    start(PILOTLIGHT_SIM_TRAPS="pc_drop,pc_full")
    folder = sample_until("pc", lambda sampling: sampling["dropped"] > 0)
    assert stalls_of(Recording.open(folder)) == ()
