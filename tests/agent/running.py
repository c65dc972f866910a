"""A real agent, and the patience to wait for it."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pilotlight.agent.settings import Settings
from pilotlight.client import Client
from pilotlight.errors import AgentError
from pilotlight.recording.places import all_recordings, recordings_root
from pilotlight.recording.recording import Recording
from pilotlight.runtime import Runtime


def until(condition: Callable[[], Any], timeout_s: float = 20.0) -> Any:
    """Waits for something to become true, and says what did not."""
    deadline = time.monotonic() + timeout_s
    while not (result := condition()):
        assert time.monotonic() < deadline, f"never became true: {condition}"
        time.sleep(0.01)
    return result


class RunningAgent:
    """Starts, kills and asks an agent."""

    def __init__(self, place: Runtime) -> None:
        self.place = place
        self.process: subprocess.Popen[str] | None = None

    def start(self, *arguments: str) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-m", "pilotlight", "agent", "--json", *arguments],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        assert line.startswith("{"), line + self.process.stdout.read()

    def start_with(self, settings: Settings, before: str = "") -> None:
        """An agent with settings that the command line does not offer; `before` is run first."""
        code = (
            "import sys; from pathlib import Path, PosixPath\n"
            "from pilotlight.agent.serve import serve\n"
            "from pilotlight.agent.settings import Settings\n"
            "from pilotlight.runtime import runtime\n"
            f"{before}\n"
            f"serve({settings!r}, runtime(), lambda: print('{{}}', flush=True))"
        )
        self.process = subprocess.Popen(
            [sys.executable, "-c", code],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        assert line.startswith("{"), line + self.process.stdout.read()

    @property
    def pid(self) -> int:
        assert self.process is not None
        return self.process.pid

    def client(self) -> Client:
        return Client(self.place)

    def status(self) -> dict[str, Any]:
        with self.client() as client:
            return client.ask("status")

    def kill(self) -> None:
        assert self.process is not None
        self.process.kill()
        self.process.communicate()

    def stop(self) -> str:
        """Ends it in order; what it said."""
        assert self.process is not None
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        said, _ = self.process.communicate(timeout=20)
        return said

    def recordings(self) -> list[Path]:
        return all_recordings(recordings_root())

    def recording(self, job: str = "job") -> Recording:
        return Recording.open(recordings_root() / job)

    def is_finished(self, job: str = "job") -> bool:
        try:
            with self.client() as client:
                return job not in [entry["job"] for entry in client.ask("status")["jobs"]]
        except AgentError:
            return True
