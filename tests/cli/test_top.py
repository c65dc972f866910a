from __future__ import annotations

import json
import os
import pty
import subprocess
import sys
import time
from collections.abc import Iterator
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from pilotlight.cli.top import Top, doing, select_job, view
from pilotlight.cli.top_screen import fitted
from pilotlight.errors import NotFound

RUN = [sys.executable, "-m", "pilotlight", "run"]
LOAD = """
import time, pilotlight
def busy():
    end = time.monotonic() + 0.02
    while time.monotonic() < end:
        pass
while True:
    pilotlight.step()
    busy()
"""


@pytest.fixture
def job(world: Path) -> Iterator[subprocess.Popen[str]]:
    """A job that runs under `pilotlight run` until the test is over."""
    process = subprocess.Popen(
        [
            sys.executable,
            "-m",
            "pilotlight",
            "run",
            "-q",
            "--name",
            "demo",
            "--",
            sys.executable,
            "-c",
            LOAD,
        ],
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PILOTLIGHT_RATE": "100", "RANK": "5"},
    )
    processes = world / "data" / "recordings" / "demo" / "processes.jsonl"
    deadline = time.monotonic() + 20
    while not processes.exists():
        assert time.monotonic() < deadline and process.poll() is None
        time.sleep(0.02)
    yield process
    process.terminate()
    process.communicate(timeout=20)


def top(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "pilotlight", "top", *arguments], capture_output=True, text=True
    )


def test_without_an_agent_it_says_what_to_run() -> None:
    ended = top()
    assert ended.returncode == 1
    assert "pilotlight run -- COMMAND" in ended.stderr and ended.stderr.count("\n") == 1


def test_a_running_job_is_shown_with_its_rank_steps_and_function(
    job: subprocess.Popen[str],
) -> None:
    ended = top()
    assert ended.returncode == 0, ended.stderr
    assert "job demo" in ended.stdout and "busy" in ended.stdout
    status = json.loads(top("--json", "demo").stdout)
    (process,) = status["processes"]
    assert process["job"] == "demo" and process["rank"] == 5
    assert 5 < process["steps_per_s"] < 60
    assert 15e6 < process["step_ns"] < 500e6
    assert process["states"]["running"] > 0.3
    assert process["functions"][0][0] == "busy"
    assert status["agent"]["cpu_ratio"] < 0.5
    missing = top("nightly")
    assert missing.returncode == 3 and "no job nightly; being recorded: demo" in missing.stderr


def test_on_a_terminal_it_stays_until_q(job: subprocess.Popen[str]) -> None:
    ours, theirs = pty.openpty()
    live = subprocess.Popen(
        [sys.executable, "-m", "pilotlight", "top"],
        stdin=theirs,
        stdout=theirs,
        stderr=subprocess.PIPE,
        env={**os.environ, "TERM": "xterm", "COLUMNS": "140", "LINES": "40"},
    )
    os.close(theirs)
    seen = b""
    # Twice: what is drawn first takes another way than what is drawn anew.
    while seen.count(b"demo") < 2:
        seen += os.read(ours, 4096)
    os.write(ours, b"\x1b[B\x1b[5~")
    assert live.poll() is None
    assert b"\x1b[" in seen and rb"\x1b" not in seen
    os.write(ours, b"q")
    deadline = time.monotonic() + 10
    while live.poll() is None:
        assert time.monotonic() < deadline
        try:
            os.read(ours, 65536)
        except OSError:
            break
    _, errors = live.communicate(timeout=10)
    assert (live.returncode, errors) == (0, b"")
    os.close(ours)


def process(**changes: object) -> dict[str, Any]:
    states = {"unknown": 0.0, "running": 0.5, "waiting": 0.25, "gil_wait": 0.25, "disk": 0.0}
    return {
        "job": "a", "rank": 0, "pid": 10, "steps": 5, "steps_per_s": 2.0, "step_ns": 500_000_000,
        "states": states, "functions": [["work", 0.75]], "open": [], "dropped": 7, "alive": True,
        "connected": True, "off": None, "command": "python x.py", **changes,
    }  # fmt: skip


def status(**changes: object) -> dict[str, Any]:
    agent = {
        "pid": 1, "cpu_ratio": 0.001, "cpu_ceiling_ratio": 0.02, "own_bytes": 1 << 20,
        "memory_ceiling_bytes": 128 << 20, "disk_bytes": 0, "limit_bytes": 256 << 20,
        "processes": 1, "level": 2, "refused": {"silent": 3},
    }  # fmt: skip
    job = {
        "job": "a", "processes": 1, "folder": "/r/a", "records_dropped": 7, "rows_dropped": 0,
        "chunks_dropped": 4, "errors": ["detail: No space left on device"],
    }  # fmt: skip
    client = {"pid": 9, "queued": 3, "dropped": 11}
    return {
        "agent": agent, "jobs": [job], "processes": [process()], "clients": [client],
        "processes_left_out": 2, **changes,
    }  # fmt: skip


def text(one: dict[str, Any]) -> str:
    out = StringIO()
    Console(file=out, width=160).print(view(one, 160))
    return out.getvalue()


def test_every_loss_is_on_the_screen() -> None:
    shown = text(status())
    for expected in (
        "slowed down (level 2)",
        "3 probes refused",
        "7 records dropped by probes",
        "4 old chunks dropped",
        "No space left on device",
        "client 9 is behind: 3 queued, 11 dropped",
        "2 more processes are not shown",
        "work 75%",
        "500.0 ms",
    ):
        assert expected in shown
    assert "rows dropped" not in shown


def test_numbers_are_whole_on_a_narrow_terminal_and_columns_without_any_are_left_out() -> None:
    states = {"unknown": 0.0, "running": 0.5, "waiting": 0.5, "gil_wait": 0.0, "disk": 0.0}
    one = process(rank=None, pid=1234567, steps=987654321, states=states)
    out = StringIO()
    Console(file=out, width=80).print(view(status(processes=[one]), 80))
    assert "1234567  987654321     2.00   500.0 ms  50%      7" in out.getvalue()
    (titles,) = [line for line in out.getvalue().splitlines() if "steps/s" in line]
    assert " ".join(titles.split()) == "pid steps steps/s last step run drops time in now"


def test_more_processes_than_lines_are_told_and_can_be_reached() -> None:
    many = status(processes=[process(rank=number, pid=1000 + number) for number in range(40)])
    out = Console(file=StringIO(), width=100, height=24)
    seen: list[str] = []
    first = 0
    while len(seen) < 40:
        rows, page = fitted(out, many, view, 40, first)
        with out.capture() as capture:
            out.print(page)
        lines = capture.get().splitlines()
        assert len(lines) == 24 and f"{rows.start + 1} to {rows.stop} of 40 processes" in lines[-1]
        seen += [line for line in lines if " 10" in line[:12]][len(seen) - rows.start :]
        first = rows.stop
    assert [int(line.split()[1]) for line in seen] == list(range(1000, 1040))


def test_what_a_process_does_has_the_room_of_the_bar_on_a_narrow_terminal() -> None:
    out = StringIO()
    Console(file=out, width=70).print(view(status(), 70))
    assert "work 75%" in out.getvalue() and "time in" not in out.getvalue()


def test_nothing_recorded_says_how_to_start() -> None:
    assert "pilotlight run -- python train.py" in text(status(processes=[], jobs=[]))


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({}, "work 75%"),
        ({"alive": False}, "ended"),
        ({"off": "no memory"}, "probe off: no memory"),
        ({"connected": False}, "hung up"),
        ({"functions": [], "open": ["load"]}, "load"),
        ({"functions": []}, "python x.py"),
    ],
)
def test_what_a_process_is_doing(changes: dict[str, object], expected: str) -> None:
    assert doing(process(**changes)) == expected


def test_one_job_is_selected_and_an_unknown_one_is_not_found() -> None:
    everything = status(processes=[process(), process(job="b")])
    assert [one["job"] for one in select_job(everything, "a")["processes"]] == ["a"]
    with pytest.raises(NotFound, match="no job c; being recorded: a"):
        select_job(everything, "c")


def test_the_verb_has_examples() -> None:
    assert all(example.startswith("pilotlight top") for example in Top().examples)
