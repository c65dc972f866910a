"""`hang` and `dump` of a running job: dumps of different moments."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from pilotlight.cli import hang
from pilotlight.simulate.hang import dump_text, dumps_of


class Job:
    """Rank 2 is one collective behind the others whenever all of them are asked."""

    def __init__(self, further: dict[int, int]) -> None:
        self.further = further
        self.asked: dict[int, int] = {}

    def ask(self, verb: str, pid: int, file: str) -> dict[str, Any]:
        times = self.asked[pid] = self.asked.get(pid, -1) + 1
        sequence = 100 + times * self.further.get(pid, 0)
        Path(file).write_text(dump_text(dumps_of("missing", 4, (2,), sequence)[pid]))
        return {"rank": pid}

    def judged(self, folder: Path) -> tuple[str, list[int]]:
        hang.fetch_flight_recorders(self.ask, range(4), folder)
        _, report = hang.judge(self.ask, range(4), folder)
        assert [path.name for path in folder.iterdir() if path.is_dir()] == []
        return report.conclusion, [culprit.rank for culprit in report.culprits]


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hang, "_APART_S", 0.0)


def test_a_job_that_goes_on_is_not_said_to_hang(tmp_path: Path) -> None:
    job = Job(dict.fromkeys(range(4), 30))
    assert job.judged(tmp_path) == ("all ranks go on with their collectives: no hang", [])


def test_a_rank_that_stands_still_while_others_go_on_is_at_fault(tmp_path: Path) -> None:
    _, culprits = Job({0: 30, 1: 30, 3: 30}).judged(tmp_path)
    assert culprits == [2]


def test_a_job_that_stands_still_hangs(tmp_path: Path) -> None:
    _, culprits = Job({}).judged(tmp_path)
    assert culprits == [2]
