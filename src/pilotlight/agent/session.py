"""One client of the agent: what it sent and what waits for it, both bounded."""

from __future__ import annotations

import json
import socket
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass

from pilotlight.client import LINE_BYTES
from pilotlight.tier import Tier

QUEUE_BYTES = 4 << 20
# A client that asks and does not read is not listened to until it has read.
_UNREAD_ANSWERS_BYTES = 1 << 20


class Broken(Exception):
    """The client said something that cannot be answered but by an error and a hang-up."""


@dataclass
class _Line:
    data: bytes
    is_answer: bool


@dataclass(frozen=True)
class Subscribed:
    kinds: frozenset[str]
    job: str | None
    tier: Tier | None = None

    def wants(self, kind: str, job: str | None) -> bool:
        return kind in self.kinds and (self.job is None or job is None or self.job == job)


class Session:
    """Never blocks. Answers are kept; published messages are dropped, oldest first, and counted."""

    def __init__(self, connection: socket.socket, pid: int, since_ns: int) -> None:
        connection.setblocking(False)
        self.connection = connection
        self.pid = pid
        self.since_ns = since_ns
        self.subscribed: Subscribed | None = None
        self.looked_ns: int | None = None  # when it last asked for names and functions
        self.limit_bytes = QUEUE_BYTES
        self.dropped = 0
        self.closing_since_ns: int | None = None
        self._reported = 0
        self._received = bytearray()
        self._lines: deque[_Line] = deque()
        self._queued_bytes = 0
        self._answer_bytes = 0
        self._sent_of_first = 0

    @property
    def queued(self) -> int:
        return len(self._lines)

    @property
    def queued_bytes(self) -> int:
        return self._queued_bytes

    @property
    def has_output(self) -> bool:
        return bool(self._lines)

    @property
    def listens(self) -> bool:
        return self.closing_since_ns is None and self._answer_bytes <= _UNREAD_ANSWERS_BYTES

    def receive(self) -> list[dict[str, object]] | None:
        """The requests that are complete now; None when the client hung up."""
        try:
            piece = self.connection.recv(1 << 16)
        except BlockingIOError:
            return []
        except OSError:
            return None
        if not piece:
            return None
        self._received += piece
        *lines, rest = self._received.split(b"\n")
        self._received = bytearray(rest)
        if any(len(line) >= LINE_BYTES for line in (*lines, rest)):
            raise Broken(f"a line longer than {LINE_BYTES} bytes")
        return [_request(bytes(line)) for line in lines if line.strip()]

    def answer(self, message: Mapping[str, object]) -> None:
        line = json.dumps(message).encode() + b"\n"
        if len(line) > LINE_BYTES:
            failed = {"ok": False, "error": f"the answer is longer than {LINE_BYTES} bytes"}
            line = json.dumps(failed).encode() + b"\n"
        self._append(_Line(line, True))

    def publish(self, line: bytes) -> None:
        """Queues one message of a subscription; makes room by dropping the oldest ones."""
        self._append(_Line(line, False))
        self.shrink()

    def shrink(self) -> None:
        """Drops the oldest messages until the queue is within its limit."""
        while self._queued_bytes > self.limit_bytes:
            # A line that is partly sent has to be finished, or the client sees garbage.
            first = 1 if self._sent_of_first else 0
            place = next(
                (at for at in range(first, len(self._lines)) if not self._lines[at].is_answer), None
            )
            if place is None:
                return
            self._queued_bytes -= len(self._lines[place].data)
            del self._lines[place]
            self.dropped += 1

    def send(self) -> bool:
        """Writes what the socket takes; False when the client is gone."""
        while self._lines:
            if self.dropped != self._reported and not self._sent_of_first:
                self._reported = self.dropped
                lag = {"kind": "lag", "queued": self.queued, "dropped": self.dropped}
                self._lines.appendleft(_Line(json.dumps(lag).encode() + b"\n", True))
                self._count(self._lines[0], 1)
            line = self._lines[0]
            try:
                sent = self.connection.send(memoryview(line.data)[self._sent_of_first :])
            except BlockingIOError:
                return True
            except OSError:
                return False
            self._sent_of_first += sent
            if self._sent_of_first == len(line.data):
                self._lines.popleft()
                self._sent_of_first = 0
                self._count(line, -1)
        return True

    def _append(self, line: _Line) -> None:
        self._lines.append(line)
        self._count(line, 1)

    def _count(self, line: _Line, sign: int) -> None:
        self._queued_bytes += sign * len(line.data)
        if line.is_answer:
            self._answer_bytes += sign * len(line.data)


def _request(line: bytes) -> dict[str, object]:
    try:
        request = json.loads(line)
    except (ValueError, RecursionError):
        raise Broken("a line that is not JSON") from None
    if not isinstance(request, dict) or not isinstance(request.get("want"), str):
        raise Broken('a request is an object with "want"')
    return request
