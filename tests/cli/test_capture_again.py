"""`pilotlight capture` where a rank had its request too late."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from pilotlight.capture.manifest import CaptureManifest
from pilotlight.cli import capture
from pilotlight.cli.main import main


class NoAgent:
    def __init__(self, **_: Any) -> None: ...
    def __enter__(self) -> NoAgent:
        return self

    def __exit__(self, *_: object) -> None: ...


@pytest.mark.parametrize(
    ("answers", "told"), [([True], True), ([False, True], True), ([False, False], False)]
)
def test_steps_that_were_not_the_same_are_taken_once_more(
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    answers: list[bool],
    told: bool,
) -> None:
    folder = tmp_path / "capture"
    left = list(answers)

    def take(_: object, request: object, target: str, into: Path, __: object) -> CaptureManifest:
        assert list(into.iterdir()) == [], "what was taken before is still there"
        (into / "stacks").mkdir()
        (into / "rank0.json.gz").touch()
        return CaptureManifest(target, 0, {}, 5, (), same_steps=left.pop(0))

    monkeypatch.setattr(capture, "Client", NoAgent)
    monkeypatch.setattr(capture, "_take", take)
    main(["capture", "job", "--json", "-o", str(folder)])
    assert json.loads(capsys.readouterr().out)["same_steps"] is told
    assert left == []
