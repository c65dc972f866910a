"""Hardware sampling that CUPTI refuses, on the simulated GPU."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.gpu.conftest import wait_for_gpu
from tests.gpu.sampled_job import Start, capture, start

from pilotlight.subscribe import subscribe

__all__ = ["start"]  # a fixture

_TRAPS = "pc_privileges,pm_privileges,range_privileges"


def test_counters_that_another_program_lets_go_of_are_taken(start: Start, tmp_path: Path) -> None:
    """As DCGM does when its profiling is paused."""
    busy = tmp_path / "busy"
    busy.touch()
    job = start(PILOTLIGHT_SIM_BUSY_FILE=str(busy))
    with subscribe(("coverage",), "sampled", "pm"):
        wait_for_gpu(lambda gpu: bool(gpu["sampling"]) and gpu["sampling"]["refused"] == 26)
        busy.unlink()
        wait_for_gpu(lambda gpu: bool(gpu["sampling"]) and gpu["sampling"]["samples"] > 0)
    assert job.poll() is None


@pytest.mark.parametrize(
    ("kinds", "traps", "chip", "reason"),
    [
        (("pc", "pm", "range"), _TRAPS, "GH100", "NVreg_RestrictProfilingToAdminUsers"),
        (("pm",), "", "GX900", "does not know this GPU"),
    ],
    ids=["permission", "chip"],
)
def test_what_cupti_refuses_is_said_with_what_to_do(
    start: Start, kinds: tuple[str, ...], traps: str, chip: str, reason: str
) -> None:
    job = start(PILOTLIGHT_SIM_TRAPS=traps, PILOTLIGHT_SIM_CHIP=chip)
    for kind in kinds:
        done = capture(kind)
        # On a busy machine the first windows may pass without a launch.
        for _ in range(10):
            if "refused" in done.stderr:
                break
            done = capture(kind)
        assert done.returncode != 0 and reason in done.stderr
        assert len(done.stderr.splitlines()) == 1
    assert job.poll() is None
