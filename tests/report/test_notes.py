from __future__ import annotations

from pathlib import Path

import pytest
from example import Process, write_example

from pilotlight.recording.recording import Recording
from pilotlight.report.notes import loss_notes
from pilotlight.report.report import report_of

MS = 1_000_000
S = 1_000 * MS


@pytest.mark.parametrize(
    "first_ms, last_ms, told",
    [
        (300, 1_700, ", steps 3 to 17: the ring"),
        (410, 450, ", step 4: the ring"),
        (1_080, 1_090, ", between steps 10 and 11: the ring"),
        (1_780, 5_000, ", from step 18 on: the ring"),
        (-500, 450, ", until step 4: the ring"),
        (-500, 5_000, " s: the ring"),
    ],
)
def test_lost_records_are_told_with_the_steps_that_are_known(
    tmp_path: Path, first_ms: int, last_ms: int, told: str
) -> None:
    process = Process(0)
    for number in range(20):
        # Between two steps of 70 ms there are 30 ms of none.
        process.add("steps", 100, number, S + number * 100 * MS, 70 * MS)
    process.add("gaps", 0, 1, S + first_ms * MS, S + last_ms * MS, 3)
    notes = loss_notes(report_of(Recording.open(write_example(tmp_path, process))))
    assert told in notes[0]
