from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest
from tests.conftest import RunPilotlight

from pilotlight.doctor import machine
from pilotlight.doctor.agent import dated
from pilotlight.doctor.python import _activation, version_check


def test_every_check_says_what_it_found_and_what_to_do(pilotlight_cli: RunPilotlight) -> None:
    done = pilotlight_cli("doctor", "--json")
    checks = {check["what"]: check for check in json.loads(done.stdout)["checks"]}
    assert checks["compiled parts"]["state"] == "ok"
    assert checks["activation in this Python"]["state"] == "ok"
    assert all(check["fix"] for check in checks.values() if check["state"] != "ok")
    assert done.returncode == int(any(c["state"] == "broken" for c in checks.values()))


def test_a_probe_that_could_not_start_is_told(
    pilotlight_cli: RunPilotlight, world: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PILOTLIGHT_SEGMENT_DIR", str(world / "nowhere"))
    subprocess.run(
        [sys.executable, "-c", "pass"], check=True, env={**os.environ, "PILOTLIGHT": "1"}
    )
    monkeypatch.delenv("PILOTLIGHT_SEGMENT_DIR")
    done = pilotlight_cli("doctor", "--json")
    checks = {check["what"]: check for check in json.loads(done.stdout)["checks"]}
    told = checks["probes that did not start"]
    assert told["state"] == "limited"
    assert "the segment cannot be created: its folder is not there" in told["detail"]
    assert time.strftime("last: %Y-%m-%d ") in told["detail"]


def test_a_python_without_the_package_is_told_how_to_get_it(tmp_path: Path) -> None:
    words = [sys.executable, "-m", "venv", "--without-pip", str(tmp_path / "bare")]
    subprocess.run(words, check=True)
    check = _activation(str(tmp_path / "bare" / "bin" / "python"), "bare")
    assert check.state == "limited"
    assert "pip install pilotlight" in check.fix


def test_a_python_that_skips_the_start_hook_is_told(tmp_path: Path) -> None:
    wrapper = tmp_path / "python"
    wrapper.write_text(f'#!/bin/sh\nexec {sys.executable} -S "$@"\n')
    wrapper.chmod(0o755)
    check = _activation(str(wrapper), "wrapper")
    assert check.state == "limited"
    assert "-S" in check.detail and "pilotlight.start()" in check.fix


def test_a_data_folder_that_cannot_be_written_is_broken(
    pilotlight_cli: RunPilotlight, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("PILOTLIGHT_DATA_DIR", str(tmp_path / "file"))
    done = pilotlight_cli("doctor", "--json")
    checks = {check["what"]: check for check in json.loads(done.stdout)["checks"]}
    assert checks["recordings"]["state"] == "broken"
    assert done.returncode == 1


def test_stacks_are_read_by_the_older_way_where_a_thread_cannot_have_files_of_its_own(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(machine, "_CLOSE_RANGE", -1)
    check = machine._stack_reading()
    assert check.state == "ok" and "process_vm_readv" in check.detail


@pytest.mark.parametrize(
    ("version", "can_be_read"),
    [("3.9", False), ("3.10", True), ("3.14", True), ("3.14t", False), ("3.15", False)],
)
def test_a_python_whose_stacks_cannot_be_read_is_told(version: str, can_be_read: bool) -> None:
    check = version_check(version)
    assert check.state == ("ok" if can_be_read else "limited")
    assert can_be_read or "3.10 to 3.14" in check.fix


def test_a_line_of_the_log_that_somebody_else_wrote_is_shown_harmless() -> None:
    assert dated("99999999999999999999 x\x1b[31m") == "99999999999999999999 x\\x1b[31m"
    assert dated("") == ""
