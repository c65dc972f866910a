"""Where the agent of this user lives: the folder of its sockets, its lock and its log."""

from __future__ import annotations

import fcntl
import os
import stat
from dataclasses import dataclass
from pathlib import Path

from pilotlight.errors import AgentError
from pilotlight.place import runtime_folder, runtime_mode

# sun_path of a unix socket, with its closing zero.
_LONGEST_SOCKET_PATH_BYTES = 107


@dataclass(frozen=True)
class Runtime:
    folder: Path

    @property
    def probe_socket(self) -> Path:
        return self.folder / "probe.sock"

    @property
    def client_socket(self) -> Path:
        return self.folder / "client.sock"

    @property
    def errand_socket(self) -> Path:
        """Where processes with a framework wait for what the agent asks of them."""
        return self.folder / "errand.sock"

    @property
    def kineto_folder(self) -> Path:
        """KINETO_IPC_SOCKET_DIR of the jobs."""
        return self.folder / "kineto"

    @property
    def lock(self) -> Path:
        return self.folder / "agent.lock"

    @property
    def log(self) -> Path:
        return self.folder / "agent.log"

    @property
    def jobs(self) -> Path:
        """The open recordings, for the agent after a killed one."""
        return self.folder / "jobs.json"


def runtime() -> Runtime:
    """The folder that docs/protocol.md names; it need not exist."""
    return Runtime(Path(runtime_folder()))


def prepare(place: Runtime) -> None:
    """Creates the folder for this user alone; AgentError if another user could have made it."""
    longest = os.fsencode(place.client_socket)
    if len(longest) > _LONGEST_SOCKET_PATH_BYTES:
        raise AgentError(
            f"{place.folder}: too long a path for a socket; set PILOTLIGHT_RUNTIME_DIR"
        )
    mode = runtime_mode()
    try:
        place.folder.mkdir(mode=mode, parents=True, exist_ok=True)
        found = place.folder.lstat()
    except OSError as error:
        raise AgentError(f"{place.folder}: {error.strerror}; set PILOTLIGHT_RUNTIME_DIR") from None
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.geteuid():
        raise AgentError(f"{place.folder}: not a folder of this user; set PILOTLIGHT_RUNTIME_DIR")
    if stat.S_IMODE(found.st_mode) & 0o022:
        raise AgentError(f"{place.folder}: others may write there (mode should be {mode:o})")


def agent_pid(place: Runtime) -> int | None:
    """Who holds the lock now; 0 if its pid cannot be read, None if nobody does."""
    try:
        with place.lock.open("rb") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
            except BlockingIOError:
                text = lock.read(32).strip()
                return int(text) if text.isdigit() else 0
            return None
    except OSError:
        return None
