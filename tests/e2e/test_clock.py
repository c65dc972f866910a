"""The system's clock is set while a job is recorded."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.e2e.conftest import Job

SOURCE = Path(__file__).resolve().parents[1] / "targets" / "set_clock.c"
HOUR_NS = 3_600_000_000_000

# Sets the clock of itself and of the agent in the middle of its steps.
PROGRAM = """
import sys, time, pilotlight
for i in range(30):
    if i == 15:
        with open(sys.argv[1], "w") as file: file.write(sys.argv[2])
    pilotlight.step(i)
    time.sleep(0.1)
pilotlight.step(30)
"""


@pytest.fixture
def clock(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The file that says how far the clock of all that is started from here is off."""
    library = tmp_path / "set_clock.so"
    compiler = os.environ.get("CC", "cc")
    subprocess.run([compiler, "-shared", "-fPIC", SOURCE, "-o", library, "-ldl"], check=True)
    offset = tmp_path / "offset"
    offset.write_text("0")
    monkeypatch.setenv("LD_PRELOAD", str(library))
    monkeypatch.setenv("PILOTLIGHT_TEST_CLOCK", str(offset))
    return offset


@pytest.mark.parametrize("by_s", [3600, -3600])
def test_a_clock_that_is_set_moves_no_step_and_is_told(
    by_s: int, clock: Path, job: Callable[..., Job], program: Callable[[str], str]
) -> None:
    done = job(sys.executable, program(PROGRAM), str(clock), str(by_s))
    assert done.code == 0, done.err
    steps = done.recording.detail("steps")
    assert steps["step"].tolist() == list(range(30))
    assert max(steps["duration_ns"].tolist()) < HOUR_NS
    starts = steps["start_ns"].tolist()
    assert starts == sorted(starts)
    assert starts[-1] - starts[0] < HOUR_NS
    ahead = [pair.realtime_ns - pair.monotonic_ns for pair in done.recording.manifest.clocks]
    assert len(ahead) == 2
    assert abs(ahead[1] - ahead[0] - by_s * 1_000_000_000) < HOUR_NS // 100
