"""Jobs on the simulated GPU (native/tests/gpu_sim), through the real provider, probe and agent."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from tests.building import building
from tests.e2e.conftest import Job, end_agent

from pilotlight.client import Client
from pilotlight.errors import AgentError

ROOT = Path(__file__).parents[2]
SIM = ROOT / "native" / "tests" / "gpu_sim"
BUILD = ROOT / "build" / "gpu-sim"
NEWEST_V1 = 28  # CUPTI of CUDA 12.9


def build_simulator() -> Path:
    if shutil.which("cmake") is None:
        pytest.skip("cmake is not installed")
    configure = ["cmake", "-S", SIM, "-B", BUILD]
    build = ["cmake", "--build", BUILD, "-j2"]
    with building(BUILD):
        for command in (configure, build):
            done = subprocess.run([str(word) for word in command], capture_output=True, text=True)
            assert done.returncode == 0, done.stdout + done.stderr
    return BUILD


@pytest.fixture(scope="session")
def simulator() -> Path:
    return build_simulator()


@dataclass(frozen=True)
class GpuJob(Job):
    """A finished `pilotlight run` on the simulated GPU."""

    def rows(self, table: str) -> Counter[str]:
        """How often each name is in a table."""
        return Counter(self.names(table))

    def last(self, counter: str) -> float | None:
        """The last value of a counter, of any process."""
        table = self.recording.detail("counters")
        order = table["time_ns"].argsort(kind="stable")
        values, names = table["value"].tolist(), self.names("counters")
        found = [values[row] for row in order.tolist() if names[row] == counter]
        return found[-1] if found else None

    def marks(self, name: str) -> list[int]:
        table = self.recording.detail("marks")
        order = table["time_ns"].argsort(kind="stable")
        values, names = table["value"].tolist(), self.names("marks")
        return [values[row] for row in order.tolist() if names[row] == name]


def wait_for_gpu(holds: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
    """The agent's status as soon as that holds for what a process collects of its GPUs."""
    end_s = time.monotonic() + 60
    while time.monotonic() < end_s:
        try:
            with Client() as client:
                status = client.ask("status")
        except AgentError:  # not up yet
            status = {"processes": []}
        if any(p["gpu"] and holds(p["gpu"]) for p in status["processes"]):
            return status
        time.sleep(0.1)
    raise AssertionError("no process came to collect that")


RunGpuJob = Callable[..., GpuJob]

_PROLOGUE = f"import sys; sys.path.insert(0, {str(SIM)!r}); from play import Gpu\n"


@pytest.fixture
def gpu_job(simulator: Path, world: Path, tmp_path: Path) -> Iterator[RunGpuJob]:
    """Runs a Python program, or the words of a command, with a version of CUPTI."""

    def run(
        program: str | list[str], cupti: int | None = NEWEST_V1, timeout: float = 60, **env: str
    ) -> GpuJob:
        folder = world / f"recording-{time.monotonic_ns()}"
        if isinstance(program, str):
            path = tmp_path / "program.py"
            path.write_text(_PROLOGUE + program)
            command = [sys.executable, str(path)]
        else:
            command = program
        libraries = f"{simulator}/lib"
        settings = {"PILOTLIGHT_GPU": "all", **env}
        if cupti is not None:
            library = next((simulator / f"cupti-{cupti}").glob("libcupti.so*"))
            settings.setdefault("PILOTLIGHT_CUPTI", str(library))
        done = subprocess.run(
            [sys.executable, "-m", "pilotlight", "run", "-o", str(folder), "--", *command],
            capture_output=True,
            text=True,
            timeout=timeout,
            env={**os.environ, "LD_LIBRARY_PATH": libraries, **settings},
        )
        return GpuJob(done.returncode, done.stdout, done.stderr, folder)

    yield run
    end_agent(world / "run")
