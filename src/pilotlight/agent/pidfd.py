"""A handle on a process that stays true when its pid is used again."""

from __future__ import annotations

import os
from pathlib import Path


def open_process(pid: int, start_time: int) -> int | None:
    """A descriptor that becomes readable when the process dies; None: it is gone or not visible.

    `start_time` is field 22 of /proc/PID/stat; with 0 whoever has the pid now is meant.
    """
    if pid <= 0:
        return None
    try:
        handle = os.pidfd_open(pid)
    except OSError:
        return None
    # Checked after the handle is open: whoever it names cannot become another one any more.
    if start_time and process_start_time(pid) not in (start_time, None):
        os.close(handle)
        return None
    return handle


def process_start_time(pid: int) -> int | None:
    """None if there is no such process, or it cannot be seen."""
    try:
        line = Path(f"/proc/{pid}/stat").read_text(errors="replace")
        return int(line.rpartition(")")[2].split()[19])
    except (OSError, ValueError, IndexError):
        return None


def maps_file(pid: int, inode: int) -> bool:
    """Whether that process still has the file mapped: after an exec it has not."""
    try:
        with Path(f"/proc/{pid}/maps").open("rb") as lines:
            return any(int(line.split(None, 5)[4]) == inode for line in lines)
    except (OSError, ValueError, IndexError):
        return False
