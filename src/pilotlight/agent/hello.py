"""The first packet of a probe and the packets that go back (docs/protocol.md)."""

from __future__ import annotations

import array
import fcntl
import os
import socket
import stat
import struct
from dataclasses import dataclass
from enum import IntEnum

MAGIC = 0x31544C544F4C4950
ABI_MAJOR = 1
HELLO = struct.Struct("<QHHIQ")
CONTROL = struct.Struct("<IIQ")

_F_GET_SEALS = 1034
_F_SEAL_SEAL, _F_SEAL_SHRINK, _F_SEAL_GROW = 1, 2, 4
_NEEDED_SEALS = _F_SEAL_SEAL | _F_SEAL_SHRINK | _F_SEAL_GROW
_SMALLEST_SEGMENT_BYTES = 64 << 10
_LARGEST_SEGMENT_BYTES = 256 << 20


class Control(IntEnum):
    ACCEPTED = 1
    REFUSED = 2
    PERIOD = 3
    PAUSE = 4
    RESUME = 5
    TIER = 6


class Reason(IntEnum):
    ABI = 1
    CREDENTIALS = 2
    SEGMENT = 3
    TOO_MANY = 4


class Refused(Exception):
    """A probe that cannot be served, and why."""

    def __init__(self, reason: Reason, message: str) -> None:
        super().__init__(message)
        self.reason = reason


@dataclass(frozen=True)
class Hello:
    pid: int
    segment_bytes: int


def control(kind: Control, value: int = 0, argument: int = 0) -> bytes:
    return CONTROL.pack(kind, value, argument)


def parse(packet: bytes) -> Hello:
    """Refused if these are not the bytes of a probe of our ABI."""
    if len(packet) != HELLO.size:
        raise Refused(Reason.ABI, f"a hello of {len(packet)} bytes, {HELLO.size} expected")
    magic, major, minor, pid, segment_bytes = HELLO.unpack(packet)
    if magic != MAGIC:
        raise Refused(Reason.ABI, f"magic {magic:#x} is not that of a probe")
    if major != ABI_MAJOR:
        raise Refused(Reason.ABI, f"the probe speaks ABI {major}.{minor}, this agent {ABI_MAJOR}")
    return Hello(pid, segment_bytes)


def check_descriptor(fd: int, hello: Hello) -> None:
    """Refused unless `fd` is a file of the promised size that cannot be cut under us.

    Memory has to be sealed; a file with a name, which survives a crash of the machine's processes,
    cannot be: the reader never maps such a one.
    """
    found = os.fstat(fd)
    if not stat.S_ISREG(found.st_mode):
        raise Refused(Reason.SEGMENT, "the descriptor is not a memory file")
    if found.st_size != hello.segment_bytes:
        raise Refused(
            Reason.SEGMENT, f"{found.st_size} bytes where {hello.segment_bytes} were promised"
        )
    if not _SMALLEST_SEGMENT_BYTES <= found.st_size <= _LARGEST_SEGMENT_BYTES:
        raise Refused(Reason.SEGMENT, f"a segment of {found.st_size} bytes")
    if found.st_nlink == 0 and _seals(fd) & _NEEDED_SEALS != _NEEDED_SEALS:
        raise Refused(Reason.SEGMENT, "the segment is not sealed")


def _seals(fd: int) -> int:
    try:
        return fcntl.fcntl(fd, _F_GET_SEALS)
    except OSError:
        return 0


def receive(connection: socket.socket) -> tuple[bytes, list[int]]:
    """One packet and the descriptors that came with it, which the caller has to close."""
    most = 4
    packet, ancillary, _, _ = connection.recvmsg(
        HELLO.size + 1, socket.CMSG_SPACE(most * array.array("i").itemsize), socket.MSG_CMSG_CLOEXEC
    )
    descriptors = array.array("i")
    for level, kind, data in ancillary:
        if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
            descriptors.frombytes(data[: len(data) - len(data) % descriptors.itemsize])
    return packet, descriptors.tolist()
