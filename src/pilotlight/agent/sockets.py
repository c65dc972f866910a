"""The agent's listening sockets, and who is at the other end of a connection."""

from __future__ import annotations

import os
import socket
import struct
from dataclasses import dataclass
from pathlib import Path

from pilotlight.errors import AgentError
from pilotlight.runtime import Runtime

_BACKLOG = 1024
_CREDENTIALS = struct.Struct("iII")


@dataclass(frozen=True)
class Peer:
    """As the kernel knows it; pid is 0 if it is not visible from here."""

    pid: int
    uid: int

    @property
    def is_trusted(self) -> bool:
        """The agent's own user or root."""
        return self.uid in (os.geteuid(), 0)


def peer_of(connection: socket.socket) -> Peer:
    raw = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
    pid, uid, _ = _CREDENTIALS.unpack(raw)
    return Peer(pid, uid)


def listen_for_probes(place: Runtime) -> socket.socket:
    # A root agent serves the probes of every user; SO_PEERCRED and the seals are the check.
    mode = 0o666 if os.geteuid() == 0 else 0o600
    return _listen(place.probe_socket, socket.SOCK_SEQPACKET, mode)


def listen_for_clients(place: Runtime) -> socket.socket:
    return _listen(place.client_socket, socket.SOCK_STREAM, 0o600)


def listen_for_errands(place: Runtime) -> socket.socket:
    # Like the probes: of every user where the agent is root's.
    mode = 0o666 if os.geteuid() == 0 else 0o600
    return _listen(place.errand_socket, socket.SOCK_STREAM, mode)


def _listen(path: Path, kind: socket.SocketKind, mode: int) -> socket.socket:
    listener = socket.socket(socket.AF_UNIX, kind | socket.SOCK_NONBLOCK | socket.SOCK_CLOEXEC)
    try:
        # Whoever holds the lock owns the names: what lies there is of a killed agent.
        path.unlink(missing_ok=True)
        listener.bind(str(path))
        path.chmod(mode)
        listener.listen(_BACKLOG)
    except OSError as error:
        listener.close()
        raise AgentError(f"{path}: {error.strerror}") from None
    return listener
