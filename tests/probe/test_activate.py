"""What a probe that cannot start leaves behind, and where it does not."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from tests.conftest import RunPilotlight

from pilotlight.place import runtime_mode


@pytest.fixture(autouse=True)
def _nowhere(world: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PILOTLIGHT", "1")
    monkeypatch.setenv("PILOTLIGHT_SEGMENT_DIR", str(world / "nowhere"))


def start_a_python() -> str:
    words = [sys.executable, "-c", "print('done')"]
    return subprocess.run(words, check=True, capture_output=True, text=True, timeout=20).stdout


def test_the_reason_is_left_also_where_no_agent_ever_was(world: Path) -> None:
    start_a_python()
    assert "its folder is not there" in (world / "run" / "probe.log").read_text()
    assert (world / "run").stat().st_mode & 0o777 == runtime_mode()


def test_no_link_is_followed_to_leave_a_reason(world: Path) -> None:
    (world / "run").mkdir()
    (world / "precious").write_text("mine")
    (world / "run" / "probe.log").symlink_to(world / "precious")
    assert start_a_python() == "done\n"
    assert (world / "precious").read_text() == "mine"


def test_a_pipe_in_the_place_of_the_log_does_not_hold_the_job(world: Path) -> None:
    (world / "run").mkdir()
    os.mkfifo(world / "run" / "probe.log")
    assert start_a_python() == "done\n"


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a folder to another user")
def test_no_reason_is_left_in_a_folder_of_another_user(world: Path) -> None:
    (world / "run").mkdir()
    os.chown(world / "run", 65534, 65534)
    start_a_python()
    assert list((world / "run").iterdir()) == []


def test_a_program_that_took_its_modules_apart_ends_as_ever() -> None:
    program = (
        "import sys\n"
        "for name in [name for name in sys.modules if name.startswith('pilotlight')]:\n"
        "    del sys.modules[name]\n"
        "sys.meta_path.clear()\n"
        "sys.last_traceback = 'mine'\n"
    )
    words = [sys.executable, "-c", program]
    done = subprocess.run(words, capture_output=True, text=True, timeout=20, env=unhindered())
    assert (done.returncode, done.stderr) == (0, "")


def test_a_run_says_which_of_its_processes_was_not_recorded(
    world: Path, pilotlight_cli: RunPilotlight
) -> None:
    done = pilotlight_cli("run", "--name", "mine", "--", sys.executable, "-c", "pass")
    assert f"1 process not recorded, last {sys.executable}: the segment" in done.stderr
    again = pilotlight_cli(
        "run", "--json", "--name", "mine", "--", sys.executable, "-c", "pass", env=unhindered()
    )
    assert json.loads(again.stderr.splitlines()[-1])["not_started"] == []


def unhindered() -> dict[str, str]:
    return {k: v for k, v in os.environ.items() if k != "PILOTLIGHT_SEGMENT_DIR"}
