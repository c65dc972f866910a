"""The lock file that makes an agent the only one in its runtime folder."""

from __future__ import annotations

import fcntl
import os
from types import TracebackType

from pilotlight.errors import AgentError
from pilotlight.runtime import Runtime, agent_pid


class AgentLock:
    """Held from construction until `release`; AgentError if another agent has it."""

    def __init__(self, place: Runtime) -> None:
        self._path = place.lock
        while True:
            self._fd = self._open(place)
            # The agent before us may have removed the file between our open and our lock.
            try:
                if os.fstat(self._fd).st_ino == self._path.stat().st_ino:
                    break
            except FileNotFoundError:
                pass
            os.close(self._fd)
        os.ftruncate(self._fd, 0)
        os.pwrite(self._fd, f"{os.getpid()}\n".encode(), 0)

    def _open(self, place: Runtime) -> int:
        try:
            fd = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        except OSError as error:
            raise AgentError(f"{self._path}: {error.strerror}") from None
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(fd)
            raise AgentError(
                f"an agent is already running (pid {agent_pid(place) or '?'})"
            ) from None
        return fd

    def release(self) -> None:
        """Removes the file, then lets go of the lock."""
        self._path.unlink(missing_ok=True)
        os.close(self._fd)

    def __enter__(self) -> AgentLock:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.release()
