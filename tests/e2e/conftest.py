"""Real jobs through the real path: run, probe, agent, recording."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from pilotlight.recording.recording import Recording
from pilotlight.runtime import Runtime, agent_pid


@dataclass(frozen=True)
class Job:
    """A finished `pilotlight run`."""

    code: int
    out: str
    err: str
    folder: Path

    @property
    def recording(self) -> Recording:
        return Recording.open(self.folder)

    @property
    def processes(self) -> list[dict[str, Any]]:
        lines = (self.folder / "processes.jsonl").read_text().splitlines()
        found: dict[int, dict[str, Any]] = {}
        for line in map(json.loads, lines):
            found.setdefault(line["process"], {}).update(line)
        return list(found.values())

    def names(self, table: str) -> list[str]:
        """The names of a table's rows, in order."""
        recording = self.recording
        columns = recording.detail(table)
        names = recording.names
        return [names.texts[at] for at in names.find(columns["process"], columns["name"]).tolist()]

    @property
    def functions(self) -> set[str]:
        """Every function that was seen on a stack."""
        return {frame.function for frame in self.recording.calls.frame_list}


def run_words(folder: Path, *command: str, options: tuple[str, ...] = ()) -> list[str]:
    program = [sys.executable, "-m", "pilotlight", "run", "-o", str(folder)]
    return [*program, *options, "--", *command]


@pytest.fixture
def job(world: Path) -> Iterator[Callable[..., Job]]:
    """Runs a command under `pilotlight run` and gives the recording."""

    def run(*command: str, timeout: float = 120, options: tuple[str, ...] = ()) -> Job:
        folder = world / f"recording-{time.monotonic_ns()}"
        done = subprocess.run(
            [
                sys.executable,
                "-m",
                "pilotlight",
                "run",
                "-o",
                str(folder),
                *options,
                "--",
                *command,
            ],
            capture_output=True,
            text=True,
            timeout=timeout,
        )
        return Job(done.returncode, done.stdout, done.stderr, folder)

    yield run
    end_agent(world / "run")


@pytest.fixture
def program(tmp_path: Path) -> Callable[[str], str]:
    """A program in a file of its own; the path."""

    def write(text: str) -> str:
        path = tmp_path / "program.py"
        path.write_text(text)
        return str(path)

    return write


def end_agent(runtime: Path) -> None:
    """As an operator would: it takes its sockets with it."""
    pid = agent_pid(Runtime(runtime))
    if pid:
        os.kill(pid, signal.SIGTERM)
        wait_until(lambda: not is_alive(pid), "the agent ends")
    assert not list(runtime.glob("*.sock"))


def wait_until(condition: Callable[[], bool], what: str, seconds: float = 20) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, f"in vain: {what}"
        time.sleep(0.02)


def is_alive(pid: int) -> bool:
    try:
        return "\nState:\tZ" not in Path(f"/proc/{pid}/status").read_text()
    except FileNotFoundError:
        return False
