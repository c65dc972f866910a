"""A job on the simulated GPU that goes on while its hardware is sampled."""

from __future__ import annotations

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
from pilotlight.subscribe import subscribe

PILOTLIGHT = (sys.executable, "-m", "pilotlight")
_PROLOGUE = f"import ctypes, sys, time; sys.path.insert(0, {str(SIM)!r}); from play import Gpu\n"
# Six samples a kernel: three, two and one for each of its reasons to stall.
STEADY = """
gpu = Gpu()
while True:
    gpu.kernel("gemm", 60_000)
    time.sleep(0.001)
"""
# Each context lives for a few windows; none may be touched after its end.
SHORT_CONTEXTS = """
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

    def run(program: str = STEADY, cupti: int = NEWEST_V1, **env: str) -> subprocess.Popen[str]:
        library = next((simulator / f"cupti-{cupti}").glob("libcupti.so*"))
        job = ("run", "-q", "--name", "sampled", "--", sys.executable, "-c", _PROLOGUE + program)
        settings = {
            "LD_LIBRARY_PATH": f"{simulator}/lib",
            "PILOTLIGHT_CUPTI": str(library),
            "PILOTLIGHT_GPU_PERIOD": "0.1",
            "PILOTLIGHT_SIM_PC_PERIOD_NS": "10000",
        }
        process = subprocess.Popen(
            [*PILOTLIGHT, *job], env={**os.environ, **settings, **env}, text=True
        )
        started.append(process)
        wait_for_gpu(lambda gpu: gpu["tier"] == "records")
        return process

    yield run
    for process in started:
        process.terminate()
        process.wait(20)
    end_agent(world / "run")


def capture(kind: str, *more: str) -> subprocess.CompletedProcess[str]:
    command = [*PILOTLIGHT, "capture", "sampled", "--gpu", kind, "--seconds", "1.2", *more]
    return subprocess.run(command, capture_output=True, text=True, timeout=120)


def sample_until(kind: str, holds: Callable[[dict[str, Any]], bool]) -> Path:
    """Asks for samples until that holds; the recording with what was sampled."""
    with subscribe(("coverage",), "sampled", kind):
        wait_for_gpu(lambda gpu: bool(gpu["sampling"]) and holds(gpu["sampling"]))
    with Client() as client:
        return Path(client.ask("flush", job="sampled")["folder"])
