"""Datagrams of the protocol: a 40-byte head (length, type), then the payload. Trusts nothing."""

from __future__ import annotations

import struct
from dataclasses import dataclass

from pilotlight.errors import FormatError

_HEAD = struct.Struct("<Q32s")
_CONTEXT = struct.Struct("<iiq")
_REQUEST = struct.Struct("<iiq")
_COUNT = struct.Struct("<i")
_ACTIVITIES = 2

HEAD_BYTES = _HEAD.size
# A process has a few ancestors; its own and this many of them are believed.
MOST_PIDS = 256
LONGEST_BYTES = HEAD_BYTES + _REQUEST.size + 4 * MOST_PIDS


@dataclass(frozen=True)
class Poll:
    """`req`: asks for a configuration. `pids`: itself and its ancestors, in its own view."""

    accepts: bool
    job: int
    pids: tuple[int, ...]


@dataclass(frozen=True)
class Hello:
    """`ctxt`: what older versions send once per device."""

    device: int
    pid: int
    job: int


def parse(datagram: bytes) -> Poll | Hello:
    """FormatError says what is wrong with it."""
    if len(datagram) < HEAD_BYTES:
        raise FormatError("shorter than its head")
    if len(datagram) > LONGEST_BYTES:
        raise FormatError("longer than any request")
    size, padded = _HEAD.unpack_from(datagram)
    payload = datagram[HEAD_BYTES:]
    if size != len(payload):
        raise FormatError("its length is not what its head says")
    kind, _, rest = padded.partition(b"\0")
    if rest.strip(b"\0"):
        raise FormatError("a type with text behind its end")
    if kind == b"req":
        return _poll(payload)
    if kind == b"ctxt":
        if len(payload) != _CONTEXT.size:
            raise FormatError("a context of another length")
        return Hello(*_CONTEXT.unpack(payload))
    raise FormatError("of an unknown type")


def _poll(payload: bytes) -> Poll:
    if len(payload) < _REQUEST.size:
        raise FormatError("a request without its fields")
    wanted, count, job = _REQUEST.unpack_from(payload)
    if not 0 < count <= MOST_PIDS or len(payload) != _REQUEST.size + 4 * count:
        raise FormatError("a request with another number of pids than it says")
    pids = struct.unpack_from(f"<{count}i", payload, _REQUEST.size)
    if any(pid <= 0 for pid in pids):
        raise FormatError("a request with an impossible pid")
    # A bit mask whose other bit differs between versions: only this one tells idle from busy.
    return Poll(bool(wanted & _ACTIVITIES), job, pids)


def configuration(text: str) -> bytes:
    """The answer to a poll; no text means that there is nothing to do."""
    payload = text.encode()
    return _HEAD.pack(len(payload), b"req") + payload


def welcome(count: int) -> bytes:
    """The answer to a hello: how many processes of the job said it for that device."""
    return _HEAD.pack(_COUNT.size, b"ctxt") + _COUNT.pack(count)
