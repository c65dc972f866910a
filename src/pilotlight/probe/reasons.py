"""Why probes did not start: a small log beside the agent's sockets, a line for each of them.

    1789000000.123 pid 4711 of train-20261118-011602-21438, /usr/bin/python3: no memory is left

Written inside other people's programs: raises nothing, prints nothing.
"""

import contextlib
import os
import re
import sys
import time

from pilotlight.place import runtime_folder, runtime_mode

_MOST_BYTES = 65536
_MOST_LINE_BYTES = 1024


def log_path() -> str:
    return f"{runtime_folder()}/probe.log"


def leave(reason: str) -> None:
    """Bounded, and nothing if there is no place of our own for it."""
    folder = runtime_folder()
    job = os.environ.get("PILOTLIGHT_JOB", "-")
    line = f"{time.time():.3f} pid {os.getpid()} of {job}, {sys.executable}: {reason}"
    try:
        with contextlib.suppress(FileExistsError):
            os.mkdir(folder, runtime_mode())  # noqa: PTH102 - as light as the probe
        if os.lstat(folder).st_uid != os.geteuid():
            return
        # Whatever stands there: no link is followed, and a pipe without a reader is no wait.
        fd = os.open(
            log_path(),
            os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK,
            0o600,
        )
        try:
            if os.fstat(fd).st_size < _MOST_BYTES:
                written = " ".join(line.split()).encode(errors="replace")[:_MOST_LINE_BYTES]
                os.write(fd, written + b"\n")
        finally:
            os.close(fd)
    except OSError:
        return


def left() -> list[str]:
    """All lines, oldest first."""
    try:
        with open(log_path(), "rb") as log:  # noqa: PTH123
            return log.read(_MOST_BYTES + _MOST_LINE_BYTES).decode(errors="replace").splitlines()
    except OSError:
        return []


def left_by(job: str, since_s: float) -> list[str]:
    """Those of one job's processes, from this time on."""
    mark = f" of {' '.join(job.split())}, "
    return [line for line in left() if mark in line and time_s(line) >= since_s]


def time_s(line: str) -> float:
    """When a line was written; 0 if it does not say so."""
    at = line.partition(" ")[0]
    return float(at) if re.fullmatch(r"[0-9]{1,10}(\.[0-9]{1,6})?", at) else 0.0
