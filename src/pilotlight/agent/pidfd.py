"""A handle on a process that stays true when its pid is used again."""

from __future__ import annotations

import fcntl
import os
import select
import socket
import struct
from pathlib import Path

# From the kernel's headers; Python has no names for them.
_SO_PEERPIDFD = 77
_PIDFD_GET_INFO = 0xC040FF0B
_PIDFD_INFO_EXIT = 1 << 3
_DESCRIPTOR = struct.Struct("i")
_PIDFD_INFO = struct.Struct("Q52xi")


def open_peer(connection: socket.socket) -> int | None:
    """A handle on whoever connected, even if it is dead by now; None before Linux 6.5."""
    try:
        raw = connection.getsockopt(socket.SOL_SOCKET, _SO_PEERPIDFD, _DESCRIPTOR.size)
    except OSError:
        return None
    return int(_DESCRIPTOR.unpack(raw)[0])


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
        return int(_stat(pid)[19])
    except (OSError, ValueError, IndexError):
        return None


def exit_code(handle: int, pid: int, start_time: int) -> int | None:
    """Of a dead process, the negative number of a signal as in `subprocess`; None: nobody knows.

    The kernel keeps it in /proc until the parent has asked, and from Linux 6.15 on with the handle
    afterwards.
    """
    status = _status_of_handle(handle)
    if status is None:
        status = _status_of_zombie(pid, start_time)
    if status is None:
        status = _status_of_handle(handle)
    return None if status is None else os.waitstatus_to_exitcode(status)


def has_died(handle: int) -> bool:
    poll = select.poll()
    poll.register(handle, select.POLLIN)
    return bool(poll.poll(0))


def _status_of_zombie(pid: int, start_time: int) -> int | None:
    try:
        # To others the kernel says 0.
        if os.geteuid() not in (0, Path(f"/proc/{pid}").stat().st_uid):
            return None
        fields = _stat(pid)
        is_it = fields[0] in ("Z", "X") and int(fields[19]) == start_time
        return int(fields[49]) if is_it else None
    except (OSError, ValueError, IndexError):
        return None


def _status_of_handle(handle: int) -> int | None:
    info = bytearray(_PIDFD_INFO.pack(_PIDFD_INFO_EXIT, 0))
    try:
        fcntl.ioctl(handle, _PIDFD_GET_INFO, info)
    except OSError:
        return None
    known, status = _PIDFD_INFO.unpack(info)
    return int(status) if known & _PIDFD_INFO_EXIT else None


def _stat(pid: int) -> list[str]:
    """The fields of /proc/PID/stat after the name, which may hold anything."""
    return Path(f"/proc/{pid}/stat").read_text(errors="replace").rpartition(")")[2].split()


def maps_file(pid: int, inode: int) -> bool:
    """Whether that process still has the file mapped: after an exec it has not."""
    try:
        with Path(f"/proc/{pid}/maps").open("rb") as lines:
            return any(int(line.split(None, 5)[4]) == inode for line in lines)
    except (OSError, ValueError, IndexError):
        return False
