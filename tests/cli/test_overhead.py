from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
from tests.conftest import RunPilotlight

STEPS = """
import time, pilotlight
end = time.monotonic() + 6
while time.monotonic() < end:
    pilotlight.step()
    sum(i * i for i in range(3000))
"""


@pytest.mark.timeout(120)
def test_a_job_with_steps_is_measured_in_one_run(
    pilotlight_cli: RunPilotlight, tmp_path: Path
) -> None:
    program = tmp_path / "steps.py"
    program.write_text(STEPS)
    done = pilotlight_cli(
        "overhead", "--json", "--window", "0.2", "--", sys.executable, str(program)
    )
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout)
    assert result["method"] == "windows"
    ratio = result["step_time"]
    assert ratio["pairs"] >= 6
    assert 0.2 < ratio["low"] <= ratio["value"] <= ratio["high"] < 5


@pytest.mark.timeout(120)
def test_a_job_without_steps_is_run_again_and_again(pilotlight_cli: RunPilotlight) -> None:
    words = [sys.executable, "-c", "sum(range(3_000_000))"]
    done = pilotlight_cli("overhead", "--json", "--repeats", "2", "--", *words)
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout)
    assert result["method"] == "repeats"
    assert len(result["on_s"]) == len(result["off_s"]) == 2
    assert all(seconds > 0 for seconds in result["on_s"] + result["off_s"])


def test_a_job_that_fails_is_no_measurement(pilotlight_cli: RunPilotlight) -> None:
    done = pilotlight_cli("overhead", "--", sys.executable, "-c", "raise SystemExit(3)")
    assert done.returncode == 1
    assert "exit code 3" in done.stderr


@pytest.mark.timeout(120)
@pytest.mark.parametrize(
    ("end", "code"), [("os.kill(os.getpid(), 2)", 0), ("raise SystemExit(3)", 1)]
)
def test_what_was_measured_is_told_however_the_job_ends(
    pilotlight_cli: RunPilotlight, tmp_path: Path, end: str, code: int
) -> None:
    program = tmp_path / "steps.py"
    program.write_text(f"import os\n{STEPS}{end}\n")
    done = pilotlight_cli(
        "overhead", "--json", "--window", "0.2", "--", sys.executable, str(program)
    )
    assert done.returncode == code, done.stderr
    assert json.loads(done.stdout)["step_time"]["pairs"] >= 6
    assert ("exit code 3" in done.stderr) == (code == 1)
