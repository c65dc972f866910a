"""Where the agent's sockets are, by docs/protocol.md. Light: every probe asks at its start."""

import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    import socket

NODE_FOLDER = "/run/pilotlight"


def runtime_folder() -> str:
    """The folder of this user's agent; it need not exist."""
    chosen = os.environ.get("PILOTLIGHT_RUNTIME_DIR")
    if chosen:
        return os.path.abspath(chosen)  # noqa: PTH100 - pathlib would cost the job milliseconds
    if os.geteuid() == 0:
        return NODE_FOLDER
    session = os.environ.get("XDG_RUNTIME_DIR")
    return f"{session}/pilotlight" if session else f"/tmp/pilotlight-{os.geteuid()}"


def runtime_mode() -> int:
    """Who may see into that folder: everybody's probes look for the node's agent there."""
    return 0o755 if os.geteuid() == 0 else 0o700


def node_name() -> str:
    """What this machine is called; PILOTLIGHT_NODE where its host name is a container's."""
    return os.environ.get("PILOTLIGHT_NODE") or os.uname().nodename


def probe_socket() -> str:
    """Where a probe finds its agent: the user's own, else the node's if there is one."""
    return _socket("probe.sock")


def errand_socket() -> str:
    """Where the same agent asks a process to do something."""
    return _socket("errand.sock")


def is_trusted(connection: "socket.socket") -> bool:
    """Whether this user or root listens there: anybody may make a folder where ours would be."""
    import socket

    credentials = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12)
    return int.from_bytes(credentials[4:8], sys.byteorder) in (os.geteuid(), 0)


def _socket(name: str) -> str:
    own = f"{runtime_folder()}/{name}"
    node = f"{NODE_FOLDER}/{name}"
    if "PILOTLIGHT_RUNTIME_DIR" not in os.environ and not _exists(own) and _exists(node):
        return node
    return own


def _exists(path: str) -> bool:
    try:
        os.stat(path)  # noqa: PTH116
    except OSError:
        return False
    return True
