"""`pilotlight report` as a person calls it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from example import Process, write_example, write_head

from pilotlight.cli.main import main


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("PILOTLIGHT_DATA_DIR", str(tmp_path))
    process = Process(0)
    for number in range(10):
        process.add("steps", 100, number, 5_000 + number * 10_000_000, 10_000_000)
    write_example(tmp_path / "recordings" / "train", process)
    return tmp_path / "recordings"


def test_without_an_argument_the_newest_is_told(
    root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["report"]) == 0
    assert capsys.readouterr().out.startswith("A step takes 10.0 ms (10 steps).")


def test_json_is_one_object(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["report", "train", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["steps"][0]["count"] == 10


def test_html_is_written_where_asked(
    root: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "report.html"
    assert main(["report", str(root / "train"), "--html", str(file)]) == 0
    assert file.read_text().startswith("<!doctype html>")
    assert str(file) in capsys.readouterr().out


def test_html_that_cannot_be_written_is_one_line(
    root: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["report", "--html", str(tmp_path / "no" / "report.html")]) == 1
    error = capsys.readouterr().err
    assert "No such file or directory" in error and error.count("\n") == 1


def test_an_unknown_recording_is_named_with_what_exists(
    root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["report", "bert"]) == 3
    assert "there is train" in capsys.readouterr().err


def test_a_newer_recording_is_refused_in_one_line(
    root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    manifest = root / "train" / "manifest.json"
    content = json.loads(manifest.read_text())
    manifest.write_text(json.dumps({**content, "version": [9, 0]}))
    assert main(["report", str(root / "train")]) == 2
    error = capsys.readouterr().err
    assert "version 9 is newer" in error and error.count("\n") == 1


def test_a_recording_of_nothing_is_told_without_an_error(
    root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_head(root / "empty", ranks=0, job="empty")
    assert main(["report", "empty"]) == 0
    assert capsys.readouterr().out.startswith("No process was recorded: no Python with pilotlight")
