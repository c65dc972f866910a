"""PC sampling on demand: `pilotlight capture JOB --gpu pc`, on the simulated GPU."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.e2e.conftest import end_agent
from tests.gpu.conftest import NEWEST_V1, SIM, wait_for_gpu

from pilotlight.client import Client
from pilotlight.recording.recording import Recording
from pilotlight.report.stalls import stalls_of
from pilotlight.subscribe import subscribe

_PILOTLIGHT = (sys.executable, "-m", "pilotlight")
_PROLOGUE = f"import ctypes, sys, time; sys.path.insert(0, {str(SIM)!r}); from play import Gpu\n"
# Six samples a kernel: three, two and one for each of its reasons to stall.
_STEADY = """
gpu = Gpu()
while True:
    gpu.kernel("gemm", 60_000)
    time.sleep(0.001)
"""
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
# Each context lives for a few windows; none may be touched after its end.
_SHORT_CONTEXTS = """
gpu = Gpu()
function = gpu.function("gemm")
while True:
    context, stream = ctypes.c_void_p(), ctypes.c_void_p()
    gpu.library.cuCtxCreate_v2(ctypes.byref(context), 0, 0)
    gpu.library.cuStreamCreate(ctypes.byref(stream), 0)
    for _ in range(100):
        gpu.library.cuLaunchKernel(function, 60_000, 1, 1, 1, 1, 1, 0, stream, 0, 0)
        time.sleep(0.001)
    gpu.library.cuCtxDestroy_v2(context)
"""

Start = Callable[..., subprocess.Popen[str]]


@pytest.fixture
def start(simulator: Path, world: Path) -> Iterator[Start]:
    """Starts the job `sampled`, which goes on until the test has ended."""
    started: list[subprocess.Popen[str]] = []

    def run(program: str = _STEADY, cupti: int = NEWEST_V1, **env: str) -> subprocess.Popen[str]:
        library = next((simulator / f"cupti-{cupti}").glob("libcupti.so*"))
        job = ("run", "-q", "--name", "sampled", "--", sys.executable, "-c", _PROLOGUE + program)
        settings = {
            "LD_LIBRARY_PATH": f"{simulator}/lib",
            "PILOTLIGHT_CUPTI": str(library),
            "PILOTLIGHT_GPU_PERIOD": "0.1",
            "PILOTLIGHT_SIM_PC_PERIOD_NS": "10000",
        }
        process = subprocess.Popen(
            [*_PILOTLIGHT, *job], env={**os.environ, **settings, **env}, text=True
        )
        started.append(process)
        wait_for_gpu(lambda gpu: gpu["tier"] == "records")
        return process

    yield run
    for process in started:
        process.terminate()
        process.wait(20)
    end_agent(world / "run")


def capture(*more: str) -> subprocess.CompletedProcess[str]:
    command = [*_PILOTLIGHT, "capture", "sampled", "--gpu", "pc", "--seconds", "1.2", *more]
    return subprocess.run(command, capture_output=True, text=True, timeout=120)


def sample_until(holds: Callable[[dict[str, Any]], bool]) -> Path:
    """Asks for samples until that holds; the recording with what was sampled."""
    with subscribe(("coverage",), "sampled", "pc"):
        wait_for_gpu(lambda gpu: bool(gpu["sampling"]) and holds(gpu["sampling"]))
    with Client() as client:
        return Path(client.ask("flush", job="sampled")["folder"])


def test_a_capture_says_why_kernels_stall(start: Start) -> None:
    start()
    # On a busy machine the first windows may pass without a launch. A second capture begins anew:
    # the simulated CUPTI aborts a process that enables sampling twice.
    done = [capture("--json") for _ in range(2)]
    for _ in range(10):
        if done[-1].returncode == 0:
            break
        done.append(capture("--json"))
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
        [*_PILOTLIGHT, "report", told["folder"]], capture_output=True, text=True, timeout=60
    )
    assert "Why kernels stall" in report.stdout and "waits for global memory 50%" in report.stdout


def test_what_cupti_refuses_is_said_with_the_permission_that_is_missing(start: Start) -> None:
    start(PILOTLIGHT_SIM_TRAPS="pc_privileges")
    done = capture()
    for _ in range(10):
        if "refused" in done.stderr:
            break
        done = capture()
    assert done.returncode != 0
    assert "NVreg_RestrictProfilingToAdminUsers" in done.stderr
    assert len(done.stderr.splitlines()) == 1


@pytest.mark.parametrize("program", [_TWO_CONTEXTS, _SHORT_CONTEXTS], ids=["two", "short"])
def test_contexts_come_and_go_while_they_are_sampled(start: Start, program: str) -> None:
    job = start(program)
    folder = sample_until(lambda sampling: sampling["samples"] > 300)
    assert [one.function for one in stalls_of(Recording.open(folder))] == ["gemm"]
    wait_for_gpu(lambda gpu: gpu["tier"] == "records")
    assert job.poll() is None  # the simulated CUPTI had nothing to object to


@pytest.mark.parametrize("cupti", [18, 130401])
def test_every_version_samples_and_goes_back_to_records(start: Start, cupti: int) -> None:
    job = start(cupti=cupti)
    folder = sample_until(lambda sampling: sampling["samples"] > 60)
    (function,) = stalls_of(Recording.open(folder))
    assert function.stalls[0].reason == "long_scoreboard"
    wait_for_gpu(lambda gpu: gpu["tier"] == "records" and gpu["records_ratio"] > 0)
    assert job.poll() is None


def test_samples_that_the_device_dropped_are_counted(start: Start) -> None:
    start(PILOTLIGHT_SIM_TRAPS="pc_drop,pc_full")
    folder = sample_until(lambda sampling: sampling["dropped"] > 0)
    assert stalls_of(Recording.open(folder)) == ()
