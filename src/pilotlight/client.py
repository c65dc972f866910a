"""A thin client of the agent: one request, one answer, JSON lines (docs/protocol.md)."""

from __future__ import annotations

import json
import select
import socket
from collections import deque
from types import TracebackType
from typing import Any

from pilotlight.errors import AgentError, NotFound
from pilotlight.place import is_trusted
from pilotlight.runtime import Runtime, runtime

LINE_BYTES = 1 << 20
_MOST_TOLD = 1000
NO_AGENT = "no agent is running; start a job with `pilotlight run -- COMMAND` or `pilotlight agent`"


class Client:
    """A connection to the agent of this user. AgentError if there is none."""

    def __init__(self, place: Runtime | None = None, timeout_s: float | None = 10.0) -> None:
        self._timeout_s = timeout_s
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._socket.settimeout(timeout_s)
        self._received = bytearray()
        self._told: deque[dict[str, Any]] = deque()
        path = (place or runtime()).client_socket
        try:
            self._socket.connect(str(path))
            is_ours = is_trusted(self._socket)
        except OSError as error:
            self._socket.close()
            if isinstance(error, (FileNotFoundError, ConnectionRefusedError)):
                raise AgentError(NO_AGENT) from None
            raise AgentError(f"the agent does not answer: {error.strerror or error}") from None
        if not is_ours:
            self._socket.close()
            raise AgentError(
                f"{path} is another user's; set PILOTLIGHT_RUNTIME_DIR to a folder of your own"
            )

    def ask(self, want: str, timeout_s: float | None = None, **fields: object) -> dict[str, Any]:
        """The answer to one request; what the agent refuses raises AgentError or NotFound.

        `timeout_s` stands in for the connection's own where an answer may take long.
        """
        self._socket.settimeout(self._timeout_s if timeout_s is None else timeout_s)
        line = json.dumps({"want": want, **fields}).encode() + b"\n"
        if len(line) > LINE_BYTES:
            raise AgentError(f"the request `{want}` is longer than {LINE_BYTES} bytes")
        try:
            self._socket.sendall(line)
        except OSError as error:
            raise AgentError(f"the agent hung up: {error.strerror or error}") from None
        # What was subscribed to may come before the answer: it waits for `next_line`.
        while "ok" not in (answer := self._read_line()):
            self._told.append(answer)
            if len(self._told) > _MOST_TOLD:
                raise AgentError(f"the agent sent {_MOST_TOLD} lines and no answer to `{want}`")
        if answer["ok"] is not True:
            kind = NotFound if answer.get("not_found") else AgentError
            raise kind(str(answer.get("error", "the agent refused without a reason")))
        return answer

    def next_line(self) -> dict[str, Any]:
        """The next object that the agent sends; AgentError when it hangs up or is silent."""
        return self._told.popleft() if self._told else self._read_line()

    def _read_line(self) -> dict[str, Any]:
        searched = 0
        while (end := self._received.find(b"\n", searched)) < 0:
            searched = len(self._received)
            if searched > LINE_BYTES:
                raise AgentError(f"the agent sent a line longer than {LINE_BYTES} bytes")
            try:
                piece = self._socket.recv(1 << 16)
            except TimeoutError:
                raise AgentError("the agent does not answer in time") from None
            except OSError as error:
                raise AgentError(f"the agent hung up: {error.strerror or error}") from None
            if not piece:
                raise AgentError("the agent hung up")
            self._received += piece
        line = bytes(self._received[:end])
        del self._received[: end + 1]
        try:
            message = json.loads(line)
        except ValueError:
            raise AgentError("the agent sent a line that is not JSON") from None
        if not isinstance(message, dict):
            raise AgentError("the agent sent a line that is not an object")
        return message

    def wait_forever(self) -> None:
        """From now on `next_line` waits as long as it takes."""
        self._timeout_s = None
        self._socket.settimeout(None)

    def wait_for_hang_up(self) -> None:
        """Until the agent has gone; reads nothing, so that another thread may go on asking."""
        line = select.poll()
        line.register(self._socket, select.POLLRDHUP)
        line.poll()

    def close(self) -> None:
        self._socket.close()

    def __enter__(self) -> Client:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()
