"""`pilotlight capture` where a rank had its request too late."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from pilotlight.capture.manifest import Captured, CaptureManifest
from pilotlight.capture.request import DONE, Answered
from pilotlight.cli import capture
from pilotlight.cli.main import main

ANSWERED = Answered(
    7, 0, 1, "rank", "kineto", DONE, None, None, None, None, stacks=None, flight_recorder=None
)


class NoAgent:
    def __init__(self, **_: Any) -> None: ...
    def __enter__(self) -> NoAgent:
        return self

    def __exit__(self, *_: object) -> None: ...


@pytest.mark.parametrize(
    ("answers", "problems", "told"),
    [
        ([True], (), True),
        ([False, True], (), True),
        ([False, False], (), False),
        ([False], ("rank 3 died",), False),
    ],
    ids=["at once", "then", "never", "another reason"],
)
def test_steps_that_were_not_the_same_are_taken_once_more(
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    answers: list[bool],
    problems: tuple[str, ...],
    told: bool,
) -> None:
    folder = tmp_path / "capture"
    left = list(answers)

    def take(_: object, request: object, target: str, into: Path, __: object) -> CaptureManifest:
        assert list(into.iterdir()) == [], "what was taken before is still there"
        (into / "stacks").mkdir()
        (into / "rank0.json.gz").touch()
        processes = (Captured(ANSWERED, "node", "rank0.json.gz"),)
        return CaptureManifest(
            target, 0, {}, 5, processes, same_steps=left.pop(0), problems=problems
        )

    monkeypatch.setattr(capture, "Client", NoAgent)
    monkeypatch.setattr(capture, "_take", take)
    main(["capture", "job", "--json", "-o", str(folder)])
    assert json.loads(capsys.readouterr().out)["same_steps"] is told
    assert left == []


@pytest.mark.parametrize("first_step", [None, 5])
def test_a_capture_by_time_instead_of_steps_says_so(tmp_path: Path, first_step: int | None) -> None:
    processes = (Captured(ANSWERED, "node", "rank0.json.gz"),)
    said = capture.lines(CaptureManifest("job", 0, {}, first_step, processes), tmp_path)
    assert any("taken by time" in line for line in said) is (first_step is None)
