"""Finds the agent of this user, or starts one that ends itself."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

from pilotlight.client import Client
from pilotlight.errors import AgentError
from pilotlight.runtime import Runtime, prepare, runtime

_WAIT_S = 10.0
_MOST_STARTS = 5
_LOOK_AGAIN_S = 0.02
_LOG_BYTES = 1 << 20


def ensure_agent() -> Client:
    """A client of the running agent, or of one started now, detached from this process.

    AgentError: none could be started; it says why.
    """
    place = runtime()
    deadline = time.monotonic() + _WAIT_S
    child: int | None = None
    starts = 0
    while True:
        client = _reach(place)
        if client is not None:
            return client
        is_wanted = child is None or _has_ended(child)
        if (starts == _MOST_STARTS and is_wanted) or time.monotonic() > deadline:
            raise AgentError(f"no agent could be started: {_last_line(place.log)}")
        if is_wanted:
            # Ours may have lost a race, or met one that was just going: then the next one wins.
            prepare(place)
            try:
                child = _spawn(place)
            except OSError as error:
                raise AgentError(
                    f"no agent could be started: {place.log}: {error.strerror}"
                ) from None
            starts += 1
        time.sleep(_LOOK_AGAIN_S)


def _reach(place: Runtime) -> Client | None:
    """An agent that answers keeps running as long as its client is there."""
    try:
        client = Client(place)
    except AgentError:
        return None
    try:
        client.ask("status")
    except AgentError:
        client.close()
        return None
    return client


def _spawn(place: Runtime) -> int:
    if place.log.exists() and place.log.stat().st_size > _LOG_BYTES:
        place.log.unlink()
    writing = os.O_WRONLY | os.O_APPEND | os.O_CREAT
    # The agent must not be profiled itself.
    environment = {**os.environ, "PILOTLIGHT": "0"}
    return os.posix_spawn(
        sys.executable,
        [sys.executable, "-m", "pilotlight.agent"],
        environment,
        file_actions=[
            (os.POSIX_SPAWN_OPEN, 0, "/dev/null", os.O_RDONLY, 0),
            (os.POSIX_SPAWN_OPEN, 1, str(place.log), writing, 0o600),
            (os.POSIX_SPAWN_DUP2, 1, 2),
        ],
        setsid=True,
        setsigmask=[],
    )


def _has_ended(child: int) -> bool:
    try:
        return os.waitpid(child, os.WNOHANG)[0] == child
    except ChildProcessError:
        return True


def _last_line(log: Path) -> str:
    try:
        lines = log.read_text(errors="replace").splitlines()
    except OSError:
        lines = []
    return lines[-1] if lines else "it does not answer and says nothing"
