"""The clients of this agent: taken in, heard, sent to; none can hold up anything."""

from __future__ import annotations

import contextlib
import json
import selectors
import socket
import time
from collections.abc import Callable, Sequence

from pilotlight.agent.session import QUEUE_BYTES, Broken, Session
from pilotlight.agent.sockets import peer_of

_ALL_QUEUES_BYTES = 32 << 20
_SMALLEST_QUEUE_BYTES = 64 << 10
_CLOSING_NS = 5_000_000_000
_ROWS_A_MESSAGE = 500


class Clients:
    def __init__(
        self,
        selector: selectors.BaseSelector,
        listener: socket.socket,
        most: int,
        answer: Callable[[Session, dict[str, object]], None],
    ) -> None:
        self.sessions: set[Session] = set()
        self.refused = 0
        self._squeeze = 0
        self._selector = selector
        self._listener = listener
        self._most = most
        self._answer = answer
        selector.register(listener, selectors.EVENT_READ, self._accept)

    def wants(self, kind: str, job: str | None) -> bool:
        """Whether anybody subscribed to that."""
        return any(s.subscribed and s.subscribed.wants(kind, job) for s in self.sessions)

    def publish(self, kind: str, job: str | None, rows: Sequence[object]) -> None:
        """A message, or several of bounded length, to everybody who subscribed to that."""
        takers = [s for s in self.sessions if s.subscribed and s.subscribed.wants(kind, job)]
        if not takers:
            return
        for start in range(0, max(1, len(rows)), _ROWS_A_MESSAGE):
            message = {"kind": kind, "job": job, "rows": rows[start : start + _ROWS_A_MESSAGE]}
            line = json.dumps(message).encode() + b"\n"
            for session in takers:
                session.publish(line)
        for session in takers:
            self.flush(session)

    def answer(self, session: Session, message: dict[str, object]) -> None:
        if session in self.sessions:
            session.answer(message)
            self.flush(session)

    def flush(self, session: Session) -> None:
        """Sends what can be sent now and listens for the rest."""
        if session not in self.sessions:
            return
        is_done = session.closing_since_ns is not None
        if not session.send() or (is_done and not session.has_output):
            self._close(session)
            return
        wanted = selectors.EVENT_READ if session.listens else 0
        if session.has_output:
            wanted |= selectors.EVENT_WRITE
        # A client that is closing and has all it gets is closed above: something is wanted.
        self._selector.modify(
            session.connection, wanted, lambda mask, s=session: self._ready(s, mask)
        )

    def tick(self, now_ns: int, squeeze: int) -> None:
        """Once a second: queue limits, and clients that do not take their last line."""
        self._squeeze = squeeze
        self._set_limits()
        for session in list(self.sessions):
            since_ns = session.closing_since_ns
            if since_ns is not None and now_ns - since_ns > _CLOSING_NS:
                self._close(session)

    def close(self) -> None:
        with contextlib.suppress(KeyError, ValueError):
            self._selector.unregister(self._listener)
        self._listener.close()
        for session in list(self.sessions):
            session.send()
            self._close(session)

    def _accept(self, _: int) -> None:
        try:
            connection, _ = self._listener.accept()
        except OSError:
            return
        peer = peer_of(connection)
        session = Session(connection, peer.pid, time.monotonic_ns())
        problem = None
        if not peer.is_trusted:
            problem = "this agent belongs to another user"
        elif len(self.sessions) >= self._most:
            problem = f"the agent has {self._most} clients, which is all it takes"
        if problem:
            self.refused += 1
            session.answer({"ok": False, "error": problem})
            session.send()
            connection.close()
            return
        self.sessions.add(session)
        self._selector.register(
            connection, selectors.EVENT_READ, lambda mask, s=session: self._ready(s, mask)
        )
        self._set_limits()

    def _ready(self, session: Session, mask: int) -> None:
        if mask & selectors.EVENT_READ and not self._receive(session):
            self._close(session)
            return
        self.flush(session)

    def _receive(self, session: Session) -> bool:
        try:
            requests = session.receive()
        except Broken as error:
            session.answer({"ok": False, "error": str(error)})
            session.closing_since_ns = time.monotonic_ns()
            return True
        if requests is None:
            return False
        for request in requests:
            self._answer(session, request)
        return True

    def _set_limits(self) -> None:
        fair = min(QUEUE_BYTES, _ALL_QUEUES_BYTES // max(1, len(self.sessions)))
        limit = max(_SMALLEST_QUEUE_BYTES, fair >> self._squeeze)
        for session in self.sessions:
            session.limit_bytes = limit
            session.shrink()

    def _close(self, session: Session) -> None:
        self.sessions.discard(session)
        with contextlib.suppress(KeyError, ValueError):
            self._selector.unregister(session.connection)
        session.connection.close()
