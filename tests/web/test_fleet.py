from __future__ import annotations

import msgspec
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
        ([lost(2, True)], "2.00 GPU-hours lost to the host"),
        ([lost(3, False)], "3.00 rank-hours lost to the host"),
        (
            [lost(2, True), lost(3, False)],
            "2.00 GPU-hours and 3.00 rank-hours lost to the host",
        ),
        ([lost(1234.5, True)], "1,234 GPU-hours lost to the host"),
        ([lost(0.04, False)], "2.40 rank-minutes lost to the host"),
        ([lost(0.00827, False)], "29.8 rank-seconds lost to the host"),
    ],
)
def test_hours_are_of_gpus_only_where_there_are_some(
    jobs: list[answers.FleetJob], told: str
) -> None:
    assert headline(jobs, []).endswith(told)


def test_the_causes_that_are_named_are_few_and_count() -> None:
    causes = {"communication": 4.0, "loader": 3.0, "host": 2.0, "copy": 1.0}
    many = msgspec.structs.replace(lost(10, True), lost_by_cause_hours=causes)
    told = "10.0 GPU-hours lost, 9.00 of them to communication, data loaders and the host"
    assert headline([many], []).endswith(told)
    causes = {"loader": 9.99, "gc": 0.01}
    one = msgspec.structs.replace(lost(10, True), lost_by_cause_hours=causes)
    assert headline([one], []).endswith("10.0 GPU-hours lost to data loaders")
