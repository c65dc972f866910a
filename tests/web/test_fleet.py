from __future__ import annotations

import pytest

pytest.importorskip("chdb", reason="the page of a fleet needs pilotlight[server]")
from pilotlight.web import answers
from pilotlight.web.fleet import headline


def lost(hours: float, has_gpus: bool) -> answers.FleetJob:
    return answers.FleetJob(
        job="job", cluster="", state="running", started_ns=0, updated_ns=0, ranks=1, nodes=1,
        attempts=1, step_ns=None, change_ratio=None, earlier="", mfu_ratio=None, trend_ns=[],
        parts_ns={}, open_findings=0, worst_finding="", worst_gain_ratio=None, gpu_hours=9.0,
        has_gpus=has_gpus, lost_hours=hours, lost_by_cause_hours={"host": hours}, records_lost=0,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("jobs", "told"),
    [
        ([lost(2, True)], "2 GPU-hours lost, 2 of them to host"),
        ([lost(3, False)], "3 rank-hours lost, 3 of them to host"),
        ([lost(2, True), lost(3, False)], "2 GPU-hours and 3 rank-hours lost, 5 of them to host"),
    ],
)
def test_hours_are_of_gpus_only_where_there_are_some(
    jobs: list[answers.FleetJob], told: str
) -> None:
    assert headline(jobs, []).endswith(told)
