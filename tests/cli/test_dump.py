from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from pilotlight.cli.dump import lines, parse_duration_ns
from pilotlight.client import Client
from pilotlight.errors import AgentError, UsageError
from pilotlight.recording.recording import Recording

RUN = [sys.executable, "-m", "pilotlight", "run"]
HANGS = """
import time, pilotlight
def waits_for_ever():
    pilotlight.step(1)
    pilotlight.step(2)
    time.sleep(600)
waits_for_ever()
"""


@pytest.fixture
def job(world: Path) -> Iterator[int]:
    """The pid of a process that hangs."""
    runner = subprocess.Popen(
        [
            sys.executable,
            "-m",
            "pilotlight",
            "run",
            "-q",
            "--name",
            "hung",
            "--",
            sys.executable,
            "-c",
            HANGS,
        ],
        stderr=subprocess.PIPE,
        text=True,
    )
    deadline = time.monotonic() + 20
    while not (found := hung_process()):
        assert time.monotonic() < deadline and runner.poll() is None
        time.sleep(0.05)
    yield found
    runner.terminate()
    runner.communicate(timeout=20)


def hung_process() -> int:
    try:
        with Client() as client:
            processes = client.ask("status")["processes"]
    except AgentError:
        return 0
    return next((process["pid"] for process in processes if process["steps"]), 0)


def dump(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "pilotlight", "dump", *arguments], capture_output=True, text=True
    )


def test_a_hung_process_is_dumped_with_its_stack(job: int, tmp_path: Path) -> None:
    ended = dump(str(job), "--json", "-o", str(tmp_path / "out"))
    assert ended.returncode == 0, ended.stderr
    result = json.loads(ended.stdout)
    recording = Recording.open(Path(result["recording"]))
    assert recording.path == tmp_path / "out"
    assert recording.detail("steps").rows == 1
    assert recording.state == "finished"
    (process,) = result["processes"]
    frames = [frame["function"] for thread in process["threads"] for frame in thread["frames"]]
    assert "waits_for_ever" in frames


def test_a_stopped_process_shows_its_stack_too(job: int) -> None:
    os.kill(job, signal.SIGSTOP)
    ended = dump("hung", "--stacks")
    os.kill(job, signal.SIGCONT)
    assert ended.returncode == 0, ended.stderr
    assert f"process {job}" in ended.stdout and "waits_for_ever" in ended.stdout
    assert "pilotlight report" not in ended.stdout


def test_a_killed_process_is_dumped_from_what_is_on_record(job: int, world: Path) -> None:
    os.kill(job, signal.SIGKILL)
    ended = dump(str(job), "--last", "5m")
    assert ended.returncode == 0, ended.stderr
    place = world / "data" / "recordings" / "hung-dump-1"
    assert str(place) in ended.stdout
    assert Recording.open(place).detail("steps").rows == 1


def test_without_its_agent_a_job_is_dumped_from_disk(job: int, world: Path) -> None:
    dump(str(job))
    with Client() as client:
        # In order: a killed one would have a successor.
        os.kill(client.ask("status")["agent"]["pid"], signal.SIGTERM)
        client.wait_for_hang_up()
    for target in (str(job), "hung"):
        ended = dump(target, "--json")
        assert ended.returncode == 0, ended.stderr
        result = json.loads(ended.stdout)
        assert result["note"] == "the agent is gone; this is what it left"
        assert Recording.open(Path(result["recording"])).detail("steps").rows == 1
    ended = dump(str(job), "--stacks")
    assert ended.returncode == 1 and "the agent is gone" in ended.stderr


def test_an_unknown_process_or_job_names_what_there_is(job: int) -> None:
    for target, what in (("999999999", "process 999999999"), ("other", "job other")):
        ended = dump(target)
        assert ended.returncode == 3
        assert ended.stderr == f"pilotlight dump: no {what}; being recorded: hung (pid {job})\n"


def test_with_nothing_at_all_it_is_not_found() -> None:
    ended = dump("4711")
    assert ended.returncode == 3 and "there are recordings of none" in ended.stderr


def test_a_folder_in_use_is_refused(job: int, tmp_path: Path) -> None:
    (tmp_path / "x").touch()
    ended = dump(str(job), "-o", str(tmp_path))
    assert ended.returncode == 2 and "not empty" in ended.stderr


@pytest.mark.parametrize(("text", "seconds"), [("60", 60), ("90s", 90), ("1.5m", 90), ("2h", 7200)])
def test_times_are_read_as_people_write_them(text: str, seconds: int) -> None:
    assert parse_duration_ns(text) == seconds * 10**9


@pytest.mark.parametrize("text", ["", "0", "-5s", "soon", "5d", "1e3"])
def test_what_is_no_time_is_a_usage_error(text: str) -> None:
    with pytest.raises(UsageError, match="not a time"):
        parse_duration_ns(text)


def test_the_innermost_frame_is_shown_first() -> None:
    frames = [{"function": name, "file": "f.py", "line": 1} for name in ("outer", "inner")]
    thread = {"thread": 7, "state": "gil_wait", "frames": frames}
    result: dict[str, Any] = {
        "note": None,
        "processes": [{"pid": 3, "threads": [thread], "problem": None}],
        "processes_left_out": 0,
    }
    assert lines(result) == [
        "process 3",
        "  thread 7 (gil wait)",
        "    inner (f.py:1)",
        "    outer (f.py:1)",
    ]


THREADS = """
import threading, time
exec(compile("def evil(): time.sleep(600)", "a\\x1b[31m\\nb.py", "exec"))
threading.Thread(target=evil, name="lonely", daemon=True).start()
time.sleep(600)
"""


def test_threads_have_their_names_and_no_name_steers_the_terminal(world: Path) -> None:
    runner = subprocess.Popen([*RUN, "-q", "--name", "named", "--", sys.executable, "-c", THREADS])
    try:
        deadline = time.monotonic() + 30
        shown = ""
        while "lonely" not in shown:
            assert time.monotonic() < deadline, shown
            time.sleep(0.2)
            done = subprocess.run(
                [sys.executable, "-m", "pilotlight", "dump", "named"],
                capture_output=True,
                text=True,
            )
            shown = done.stdout
    finally:
        runner.terminate()
        runner.wait(20)
    (line,) = [line for line in shown.splitlines() if "lonely" in line]
    assert line.split()[0] == "thread" and line.endswith(" lonely (waiting)")
    assert "\x1b" not in shown
    assert "    evil (a\\x1b[31m\\nb.py:1)" in shown.splitlines()
