"""`pilotlight export` as a person calls it."""

from __future__ import annotations

import gzip
import json
import os
import stat
import subprocess
from pathlib import Path

import pytest
from job import write_job

from pilotlight.cli.export import FORMATS
from pilotlight.cli.main import main


@pytest.mark.parametrize("name", FORMATS)
def test_every_format_is_written(
    tmp_path: Path, name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "out"
    arguments = ["export", str(write_job(tmp_path / "job")), "--format", name, "-o", str(file)]
    assert main([*arguments, "--json"]) == 0
    said = json.loads(capsys.readouterr().out)
    assert said == {
        "file": str(file),
        "format": name,
        "bytes": file.stat().st_size,
        "warnings": [],
    }
    assert [path.name for path in tmp_path.iterdir() if path.is_file()] == ["out"]


def test_chrome_is_compressed_if_the_name_says_so(tmp_path: Path) -> None:
    file = tmp_path / "trace.json.gz"
    folder = str(write_job(tmp_path / "job"))
    assert main(["export", folder, "--format", "chrome", "-o", str(file)]) == 0
    assert json.loads(gzip.decompress(file.read_bytes()))["traceEvents"]


def test_a_file_that_cannot_be_written_is_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = str(write_job(tmp_path / "job"))
    assert main(["export", folder, "--format", "folded", "-o", str(tmp_path / "no" / "x")]) == 1
    error = capsys.readouterr().err
    assert "No such file or directory" in error and error.count("\n") == 1


def test_what_is_no_file_is_written_into_and_stays_what_it_is(
    tmp_path: Path, capsysbinary: pytest.CaptureFixture[bytes]
) -> None:
    folder = str(write_job(tmp_path / "job"))
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    read = subprocess.Popen(["cat", str(pipe)], stdout=subprocess.PIPE)
    assert main(["export", folder, "--format", "folded", "-o", str(pipe)]) == 0
    through_pipe = read.communicate(timeout=60)[0]
    assert stat.S_ISFIFO(pipe.stat().st_mode)
    capsysbinary.readouterr()
    assert main(["export", folder, "--format", "folded", "-o", "-"]) == 0
    assert capsysbinary.readouterr().out == through_pipe != b""


def test_a_damaged_recording_is_exported_with_a_warning(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = write_job(tmp_path / "job")
    (folder / "detail" / "000001" / "steps.arrows").unlink()
    file = tmp_path / "out"
    assert main(["export", str(folder), "--format", "chrome", "-o", str(file)]) == 0
    assert "steps.arrows: is missing" in capsys.readouterr().err
