from __future__ import annotations

import pytest

pytest.importorskip("chdb", reason="the collector needs pilotlight[server]")
from msgspec.structs import replace

from pilotlight.store.queries import JobDetail, JobRow
from pilotlight.store.queries.detail import Waste
from pilotlight.web.jobs import headline
from pilotlight.web.pace import Pace

ROW = JobRow(
    job="j", cluster="c", state="running", started_ns=0, updated_ns=1, ended_ns=0, attempts=1,
    nodes=1, ranks=1, world_size=1, launcher="", command="", exit_code=0, signal=0, steps=9,
    step_ns=738_000_000, gpu_hours=0.1, has_gpus=True, busy_ratio=None, open_findings=0, lost=0,
)  # fmt: skip
NO_WASTE = Waste(0.0, 0.0, {}, 0.0, 0.0)


def _told(row: JobRow) -> str:
    return headline(JobDetail(row, (), {}, {}, NO_WASTE, {}, 0, 8, 0, 1), Pace(), None, None)


@pytest.mark.parametrize(
    ("state", "exit_code", "signal", "begin"),
    [
        ("failed", 1, 0, "Failed with exit code 1; mean step 738 ms"),
        ("failed", 0, 9, "Failed by signal 9; mean step 738 ms"),
        ("failed", 0, 0, "Failed; mean step 738 ms"),
        ("lost", 0, 0, "Lost: nothing comes from it any more; mean step 738 ms"),
    ],
)
def test_a_job_that_did_not_end_well_is_not_said_to_be_well(
    state: str, exit_code: int, signal: int, begin: str
) -> None:
    row = replace(ROW, state=state, exit_code=exit_code, signal=signal)
    assert _told(row) == f"{begin}; no rule has found why."


def test_a_job_that_finished_with_nothing_found_is_said_to_be_well() -> None:
    row = replace(ROW, state="finished")
    assert _told(row) == "Mean step 738 ms. Nothing is found to be wrong with it."


def test_only_of_a_running_job_more_steps_may_come() -> None:
    none = replace(ROW, steps=0)
    assert _told(none) == "No step of this job has arrived yet."
    assert _told(replace(none, state="finished")) == "Finished; no step of it has arrived."
    failed = replace(none, state="failed", exit_code=2)
    assert _told(failed) == "Failed with exit code 2; no step of it has arrived."
