"""The folder in /tmp where processes put their files, until the client has collected them."""

from __future__ import annotations

import contextlib
import os
import shutil
import stat
import tempfile
from dataclasses import dataclass
from pathlib import Path

from pilotlight.errors import AgentError

# Newer Kineto writes nowhere else.
ROOT = Path("/tmp")
LEAST_FREE_BYTES = 64 << 20


@dataclass(frozen=True)
class Staging:
    folder: Path

    @classmethod
    def make(cls, uid: int) -> Staging:
        """For the processes of that user, and nobody else's."""
        free = free_bytes(ROOT)
        if free < LEAST_FREE_BYTES:
            raise AgentError(
                f"{ROOT}: {free >> 20} MiB free, and traces need {LEAST_FREE_BYTES >> 20} or more"
            )
        try:
            # By the agent's number, for whoever finds it there and wonders whose it is.
            prefix = f"pilotlight-capture-{os.getpid()}-"
            folder = Path(tempfile.mkdtemp(prefix=prefix, dir=ROOT))
            if uid != os.geteuid():
                os.chown(folder, uid, -1)
        except OSError as error:
            raise AgentError(f"{ROOT}: {error.strerror}") from None
        return cls(folder)

    def has(self, file: Path, uid: int) -> bool:
        """Whether that file is complete and is what it should be: a plain file of that user."""
        try:
            found = file.lstat()
        except OSError:
            return False
        return stat.S_ISREG(found.st_mode) and found.st_uid in (uid, 0)

    def remove(self) -> None:
        with contextlib.suppress(OSError):
            shutil.rmtree(self.folder)


def free_bytes(folder: Path) -> int:
    try:
        found = os.statvfs(folder)
    except OSError:
        return 0
    return found.f_bavail * found.f_frsize
