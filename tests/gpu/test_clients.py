"""Several clients of one job: the widest request counts, and each is told what came of it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.e2e.conftest import end_agent
from tests.gpu.conftest import NEWEST_V1, SIM, wait_for_gpu

from pilotlight.subscribe import subscribe

_PILOTLIGHT = (sys.executable, "-m", "pilotlight")
_PROGRAM = f"""
import sys, time
sys.path.insert(0, {str(SIM)!r})
from play import Gpu
gpu = Gpu()
while True:
    gpu.kernel("gemm", 1000)
    time.sleep(0.002)
"""


@pytest.fixture
def cupti() -> int:
    return NEWEST_V1


@pytest.fixture
def running(simulator: Path, world: Path, tmp_path: Path, cupti: int) -> Iterator[str]:
    """A job that goes on until the test has ended."""
    library = next((simulator / f"cupti-{cupti}").glob("libcupti.so*"))
    process = subprocess.Popen(
        [
            sys.executable,
            "-m",
            "pilotlight",
            "run",
            "-q",
            "--name",
            "shared",
            "--",
            sys.executable,
            "-c",
            _PROGRAM,
        ],
        env={
            **os.environ,
            "LD_LIBRARY_PATH": f"{simulator}/lib",
            "PILOTLIGHT_CUPTI": str(library),
            "PILOTLIGHT_GPU_PERIOD": "0.1",
        },
    )
    yield "shared"
    process.terminate()
    process.wait(20)
    end_agent(world / "run")


def wait_for_tier(tier: str) -> dict[str, Any]:
    """What the agent says when a process collects that much."""
    return wait_for_gpu(lambda gpu: gpu["tier"] == tier)


def test_the_widest_of_several_requests_counts_until_that_client_leaves(running: str) -> None:
    before = wait_for_tier("records")
    assert before["jobs"][0]["gpu"] == {
        "tier": "records",
        "asked": [{"client": "recording", "tier": "records"}],
    }
    with (
        subscribe(("coverage",), running, "nodes") as wide,
        subscribe(("coverage",), running, "launches") as narrow,
    ):
        shared = wait_for_tier("nodes")
        asked = {one["tier"] for one in shared["jobs"][0]["gpu"]["asked"]}
        assert asked == {"records", "nodes", "launches"}
        # Who asked for less is told what there is, too.
        for client in (wide, narrow):
            message = next(m for m in client if m["rows"] and m["rows"][0]["tier"] == "nodes")
            (row,) = message["rows"]
            assert 0 < row["records_ratio"] < 1 and row["launches_ratio"] == 1
    wait_for_tier("records")


def test_capture_asks_for_more_and_says_its_coverage(running: str) -> None:
    wait_for_tier("records")
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "pilotlight",
            "capture",
            running,
            "--gpu",
            "nodes",
            "--json",
            "--seconds",
            "2",
        ],
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert told["asked"] == "nodes"
    assert [row["tier"] for row in told["coverage"]] == ["nodes"]


def test_a_capture_ends_with_its_job(running: str, world: Path) -> None:
    (process,) = wait_for_tier("records")["processes"]
    capture = subprocess.Popen(
        [*_PILOTLIGHT, "capture", running, "--gpu", "nodes", "--seconds", "600", "--json"],
        stdout=subprocess.PIPE,
        text=True,
    )
    wait_for_tier("nodes")
    os.kill(process["pid"], signal.SIGTERM)
    out, _ = capture.communicate(timeout=60)
    assert json.loads(out)["job"] == running


@pytest.mark.parametrize("cupti", [22])  # of CUDA 12.4
def test_hardware_sampling_is_refused_by_the_name_of_what_is_missing(running: str) -> None:
    wait_for_tier("records")
    done = subprocess.run(
        [*_PILOTLIGHT, "capture", running, "--gpu", "pm"],
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode != 0
    assert "PM sampling of process" in done.stderr and "cuptiPmSamplingEnable" in done.stderr
    assert len(done.stderr.splitlines()) == 1
