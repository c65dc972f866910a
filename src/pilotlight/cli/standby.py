"""The recording of a job that `run` asks for, and again of the successor of a killed agent."""

from __future__ import annotations

import threading
from pathlib import Path

from pilotlight.agent.spawn import ensure_agent
from pilotlight.client import Client
from pilotlight.errors import PilotlightError
from pilotlight.probe.scrub import without_secrets
from pilotlight.recording.places import recordings_root
from pilotlight.runtime import runtime

# What kills one again and again, for want of memory perhaps, is not to be fed for ever.
_MOST_SUCCESSORS = 5


class Beginning:
    """Asks an agent for the recording. `ends_itself`: that agent was started for jobs."""

    def __init__(self, job: str, output: Path | None, command: list[str]) -> None:
        self._job = job
        self._output = output
        self._command = command
        self.ends_itself = False

    def __call__(self, client: Client) -> None:
        output = self._output
        client.ask(
            "record",
            job=self._job,
            folder=str(output.absolute()) if output is not None else None,
            # Where `pilotlight report` will look; the agent was perhaps started with another home.
            recordings=str(recordings_root()) if output is None else None,
            command=without_secrets(self._command),
        )
        self.ends_itself = bool(client.ask("status")["agent"]["ends_itself"])


class Standby(threading.Thread):
    """Stands by while the job runs: an agent that was killed gets a successor, which takes over."""

    def __init__(self, client: Client, begin: Beginning) -> None:
        super().__init__(name="standby", daemon=True)
        self._client = client
        self._begin = begin

    def run(self) -> None:
        client = self._client
        for _ in range(_MOST_SUCCESSORS):
            client.wait_for_hang_up()
            # Who ended it in order wants none, or another.
            if not runtime().client_socket.exists():
                return
            try:
                client = ensure_agent()
                self._begin(client)
            except (PilotlightError, OSError):
                return
