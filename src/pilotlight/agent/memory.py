"""Detail that is kept in memory while a job runs, and brought to disk when it ends."""

from __future__ import annotations

import os
import shutil
import stat
import tempfile
from pathlib import Path

from pilotlight.errors import AgentError

_SHARED_MEMORY = Path("/dev/shm")


def memory_folder() -> Path:
    """A folder of this user in memory; AgentError if the machine has none."""
    folder = _SHARED_MEMORY / f"pilotlight-{os.geteuid()}"
    try:
        folder.mkdir(mode=0o700, exist_ok=True)
        found = folder.lstat()
    except OSError as error:
        raise AgentError(f"{folder}: {error.strerror}; leave out --memory") from None
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.geteuid():
        raise AgentError(f"{folder}: not a folder of this user; leave out --memory")
    return folder


def keep_in_memory(recording: Path, memory: Path) -> None:
    """Makes the detail of a new recording a link to a folder in memory."""
    try:
        place = tempfile.mkdtemp(prefix=f"{recording.name}-", dir=memory)
        (recording / "detail").symlink_to(place)
    except OSError as error:
        raise AgentError(f"{memory}: {error.strerror}") from None


def settle(recording: Path) -> None:
    """Brings the detail from memory to its place on disk. OSError: it stays in memory."""
    link = recording / "detail"
    if not link.is_symlink():
        return
    place = link.resolve()
    beside = recording / "detail.new"
    shutil.copytree(place, beside)
    link.unlink()
    beside.rename(link)
    shutil.rmtree(place, ignore_errors=True)
