"""The recording of a job that `run` asks an agent for, and the next one where that ends first."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pilotlight.agent.spawn import ensure_agent
from pilotlight.client import Client
from pilotlight.errors import AgentError, PilotlightError
from pilotlight.launch import Ended
from pilotlight.probe.scrub import without_secrets
from pilotlight.recording.places import recordings_root
from pilotlight.runtime import runtime

# Whoever ended an agent in order may start another.
_OTHERS_S = 5.0
_LOOK_AGAIN_S = 0.1
# What kills one again and again, for want of memory perhaps, is not to be fed for ever.
_MOST_SUCCESSORS = 5


class Upkeep:
    """An agent that was started for jobs may end before its job: it was killed, or a scheduler
    ended it with the step that had started it. The next one goes on with the recording. A service
    is left to its supervisor."""

    def __init__(self, job: str, output: Path | None, command: Sequence[str]) -> None:
        self._job = job
        self._wanted: dict[str, Any] = {
            "folder": str(output.absolute()) if output is not None else None,
            # Where `pilotlight report` will look; the agent was perhaps started with another home.
            "recordings": str(recordings_root()) if output is None else None,
            "command": without_secrets(command),
        }
        self._ended = threading.Lock()
        self.client = ensure_agent()
        self._is_service = not self._record(self.client)

    def stand_by(self) -> None:
        """Once the job runs, and not before: a thread has the mask of signals that it is started
        with, and those are for the main thread to pass on."""
        if not self._is_service:
            threading.Thread(target=self._replace_agents, daemon=True).start()

    def finish(self, how: Ended, timeout_s: float) -> dict[str, Any]:
        """What the agent says when it has closed the recording, or goes on for other tasks."""
        # For good: what has ended is recorded by nobody again.
        self._ended.acquire()
        try:
            return self._finish(self.client, how, timeout_s)
        except AgentError:
            return self._finish(Client() if self._is_service else ensure_agent(), how, timeout_s)

    def _finish(self, client: Client, how: Ended, timeout_s: float) -> dict[str, Any]:
        words = {"job": self._job, "exit_code": how.exit_code, "signal": how.signal}
        with client:
            return client.ask("finish", timeout_s=timeout_s, **words)

    def _record(self, client: Client) -> bool:
        """Whether that agent was started for jobs."""
        client.ask("record", job=self._job, **self._wanted)
        return bool(client.ask("status")["agent"]["ends_itself"])

    def _replace_agents(self) -> None:
        for _ in range(_MOST_SUCCESSORS):
            self.client.wait_for_hang_up()
            if self._ended.locked():
                return
            try:
                client = _successor()
                if not self._ended.acquire(blocking=False):
                    return
                try:
                    self._record(client)
                    self.client = client
                finally:
                    self._ended.release()
            except (PilotlightError, OSError):
                return


def _successor() -> Client:
    # One that was killed leaves its socket.
    deadline = time.monotonic() + (0 if runtime().client_socket.exists() else _OTHERS_S)
    while time.monotonic() < deadline:
        try:
            return Client()
        except AgentError:
            time.sleep(_LOOK_AGAIN_S)
    return ensure_agent()
