"""The two names under which processes find the daemon, and who has them."""

from __future__ import annotations

import contextlib
import os
import socket
import stat
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from pilotlight.errors import AgentError

NAME = "dynolog"
ABSTRACT_ADDRESS = f"\0{NAME}\0"
_CLIENT_PREFIX = "dynoconfigclient"
_UUID_LENGTH = 36
# sun_path with its closing zero, as the clients check it.
_LONGEST_ADDRESS_BYTES = 106
# Answers that nobody has read yet, of some 770 bytes each. A socket has room for 278 of them unless
# it asks for more, and for 556 with what kernels grant by default.
_UNREAD_BYTES = 1 << 20
LONGEST_FOLDER_BYTES = _LONGEST_ADDRESS_BYTES - len(f"/{_CLIENT_PREFIX}") - _UUID_LENGTH


@dataclass
class FolderEndpoint:
    """A socket in a folder."""

    folder: Path
    listener: socket.socket
    _handle: int

    @classmethod
    def open_own(cls, folder: Path) -> FolderEndpoint:
        """For this user. Its name is a link that leads nowhere once this process is gone.

        A client that finds a name without a listener tries for ten seconds and keeps its process
        from exiting; one that finds no name goes on at once. A killed agent cannot remove its
        socket, but /proc/PID goes with it.
        """
        made = cls._bind(folder, 0o700, f"{NAME}.sock")
        link = f"/proc/{os.getpid()}/fd/{made._handle}/{NAME}.sock"
        try:
            (folder / NAME).symlink_to(link)
        except OSError as error:
            made.close()
            raise AgentError(f"{folder / NAME}: {error.strerror}") from None
        return made

    @classmethod
    def open_shared(cls, folder: Path) -> FolderEndpoint:
        """For all users and for containers, whose /proc is another. After a kill whoever keeps the
        agent running has ten seconds before an exiting job notices."""
        return cls._bind(folder, 0o1777, NAME)

    @classmethod
    def _bind(cls, folder: Path, mode: int, name: str) -> FolderEndpoint:
        if len(os.fsencode(folder)) > LONGEST_FOLDER_BYTES:
            raise AgentError(
                f"{folder}: longer than {LONGEST_FOLDER_BYTES} bytes, too long for Kineto's sockets"
            )
        listener = _datagram_socket()
        handle = -1
        try:
            folder.mkdir(mode=0o700, exist_ok=True)
            folder.chmod(mode)
            handle = os.open(folder, os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
            for stale in (folder / NAME, folder / f"{NAME}.sock"):
                stale.unlink(missing_ok=True)
            listener.bind(str(folder / name))
            (folder / name).chmod(0o666)
        except OSError as error:
            listener.close()
            if handle >= 0:
                os.close(handle)
            raise AgentError(f"{error.filename or folder}: {error.strerror}") from None
        return cls(folder, listener, handle)

    def close(self) -> None:
        """Takes the names away first: from here on no client waits for us."""
        for name in (NAME, f"{NAME}.sock"):
            (self.folder / name).unlink(missing_ok=True)
        self.listener.close()
        os.close(self._handle)
        with contextlib.suppress(OSError):
            remove_stale_clients(self.folder)
            self.folder.rmdir()


def kineto_environment(environment: Mapping[str, str], folder: Path) -> dict[str, str]:
    """What makes the probes of a job let torch ask this folder for traces; nothing if the user has
    set up another daemon for them."""
    is_theirs = "KINETO_USE_DAEMON" in environment or "KINETO_IPC_SOCKET_DIR" in environment
    if is_theirs or len(os.fsencode(folder)) > LONGEST_FOLDER_BYTES:
        return {}
    return {"PILOTLIGHT_KINETO_DIR": str(folder)}


def open_abstract() -> socket.socket:
    """AgentError names the process that has the name already."""
    listener = _datagram_socket()
    try:
        listener.bind(ABSTRACT_ADDRESS)
    except OSError as error:
        listener.close()
        raise AgentError(f"the abstract socket {NAME}: {_owner() or error.strerror}") from None
    return listener


def remove_stale_clients(folder: Path) -> int:
    """Sockets of clients that are gone; they never remove them. How many there were."""
    bound = bound_paths()
    stale = [
        entry
        for entry in folder.iterdir()
        if entry.name.startswith(_CLIENT_PREFIX)
        and stat.S_ISSOCK(entry.lstat().st_mode)
        and os.fsencode(entry) not in bound
    ]
    for entry in stale:
        entry.unlink(missing_ok=True)
    return len(stale)


def bound_paths() -> set[bytes]:
    """The names of all unix sockets of this network namespace; abstract ones begin with @."""
    return {
        line.split(None, 7)[7].rstrip(b"\n") for line in _unix_sockets() if len(line.split()) > 7
    }


def _unix_sockets() -> list[bytes]:
    try:
        return Path("/proc/net/unix").read_bytes().splitlines()[1:]
    except OSError:
        return []


def _owner() -> str | None:
    """Who has the abstract name, as far as this user may see it."""
    inodes = {
        int(fields[6])
        for line in _unix_sockets()
        if len(fields := line.split()) > 7 and fields[7].rstrip(b"@") == f"@{NAME}".encode()
    }
    if not inodes:
        return None
    wanted = {f"socket:[{inode}]" for inode in inodes}
    for process in Path("/proc").iterdir():
        if not process.name.isdigit():
            continue
        with contextlib.suppress(OSError):
            if any(str(entry.readlink()) in wanted for entry in (process / "fd").iterdir()):
                name = (process / "comm").read_text(errors="replace").strip()
                return f"process {process.name} ({name}) has it"
    return "a process of another user has it"


def _datagram_socket() -> socket.socket:
    made = socket.socket(
        socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK | socket.SOCK_CLOEXEC
    )
    made.setsockopt(socket.SOL_SOCKET, socket.SO_PASSCRED, 1)
    made.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _UNREAD_BYTES)
    return made
