"""The processes that can be asked to do something: one line each way, never waited for."""

from __future__ import annotations

import contextlib
import json
import os
import selectors
import socket
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from pilotlight.agent.sockets import peer_of

Answer = Mapping[str, object]
_LONGEST_LINE_BYTES = 1 << 16
_MOST_LINKS = 2048
_ACCEPTS_A_TURN = 64


@dataclass
class _Asked:
    answered: Callable[[Answer], None]
    deadline_ns: int


@dataclass
class _Link:
    connection: socket.socket
    pid: int
    uid: int
    received: bytes = b""
    asked: dict[int, _Asked] = field(default_factory=dict)


class Errands:
    def __init__(self, selector: selectors.BaseSelector, listener: socket.socket) -> None:
        self._selector = selector
        self._listener = listener
        self._links: dict[int, _Link] = {}
        self._number = 0
        selector.register(listener, selectors.EVENT_READ, self._accept)

    def reaches(self, pid: int) -> bool:
        return pid in self._links

    def uid_of(self, pid: int) -> int | None:
        link = self._links.get(pid)
        return link.uid if link else None

    def ask(
        self,
        pid: int,
        errand: Mapping[str, object],
        timeout_ns: int,
        answered: Callable[[Answer], None],
    ) -> None:
        """`answered` is called once, with an `error` if no answer came."""
        link = self._links.get(pid)
        if link is None:
            answered({"error": "it has no thread of pilotlight to ask"})
            return
        self._number += 1
        link.asked[self._number] = _Asked(answered, time.monotonic_ns() + timeout_ns)
        line = json.dumps({"id": self._number, **errand}).encode() + b"\n"
        try:
            # A few hundred bytes: a link that does not take them whole is of no use.
            if link.connection.send(line) != len(line):
                self._drop(link, "it does not read what it is asked")
        except OSError as error:
            self._drop(link, error.strerror or str(error))

    def tick(self, now_ns: int) -> None:
        for link in list(self._links.values()):
            for number in [n for n, one in link.asked.items() if now_ns > one.deadline_ns]:
                link.asked.pop(number).answered({"error": "it does not answer: its GIL is held"})

    def close(self) -> None:
        with contextlib.suppress(KeyError, ValueError):
            self._selector.unregister(self._listener)
        self._listener.close()
        for link in list(self._links.values()):
            self._drop(link, "the agent goes")

    def _accept(self, _: int) -> None:
        for _ in range(_ACCEPTS_A_TURN):
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            peer = peer_of(connection)
            is_trusted = peer.is_trusted or os.geteuid() == 0
            if not is_trusted or peer.pid <= 0 or len(self._links) >= _MOST_LINKS:
                connection.close()
                continue
            connection.setblocking(False)
            link = _Link(connection, peer.pid, peer.uid)
            before = self._links.get(peer.pid)
            if before is not None:
                self._drop(before, "it connected again")
            self._links[peer.pid] = link
            self._selector.register(
                connection, selectors.EVENT_READ, lambda _, one=link: self._heard(one)
            )

    def _heard(self, link: _Link) -> None:
        try:
            piece = link.connection.recv(1 << 14)
        except BlockingIOError:
            return
        except OSError:
            piece = b""
        link.received += piece
        if not piece or len(link.received) > _LONGEST_LINE_BYTES:
            self._drop(link, "it hung up" if not piece else "it talks without end")
            return
        *lines, link.received = link.received.split(b"\n")
        for line in lines:
            self._answered(link, line)

    def _answered(self, link: _Link, line: bytes) -> None:
        try:
            answer = json.loads(line)
        except (ValueError, RecursionError):
            answer = None
        number = answer.get("id") if isinstance(answer, dict) else None
        if type(number) is not int or not 0 < number <= self._number:
            self._drop(link, "it answers what nobody asked")
            return
        asked = link.asked.pop(number, None)
        if asked is not None:  # else it comes too late
            asked.answered(answer)

    def _drop(self, link: _Link, reason: str) -> None:
        if self._links.get(link.pid) is link:
            del self._links[link.pid]
        with contextlib.suppress(KeyError, ValueError):
            self._selector.unregister(link.connection)
        link.connection.close()
        asked, link.asked = link.asked, {}
        for one in asked.values():
            one.answered({"error": reason})
