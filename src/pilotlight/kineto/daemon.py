"""Answers every poll at once; knows who polls; hands a configuration to whom it is meant for."""

from __future__ import annotations

import contextlib
import fcntl
import os
import socket
import struct
import termios
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass

from pilotlight.errors import FormatError
from pilotlight.kineto import message

_CREDENTIALS = struct.Struct("iII")
_ANCILLARY_BYTES = socket.CMSG_SPACE(_CREDENTIALS.size) + socket.CMSG_SPACE(64)
_DATAGRAMS_A_TURN = 512
_MOST_POLLERS = 4096
_SILENCE_NS = 60_000_000_000
DEFAULT_PERIOD_NS = 5_000_000_000
# A client waits for 90 ms for an answer.
_READ_NS = 200_000_000


@dataclass
class Poller:
    """A process that polls. `own_pid` is how it knows itself, in a container of its own maybe."""

    pid: int
    uid: int
    own_pid: int
    ancestors: tuple[int, ...]
    job: int
    accepts: bool
    since_ns: int
    polled_ns: int
    period_ns: int = DEFAULT_PERIOD_NS
    was_passed_over: bool = False


@dataclass
class Pending:
    """A configuration that waits for its process to poll, written then; `handed` hears of it."""

    write: Callable[[], str]
    handed: Callable[[int], None]


class Daemon:
    def __init__(self) -> None:
        self.pollers: dict[int, Poller] = {}
        self.refused: Counter[str] = Counter()
        self.unsent = 0
        self._sent_ns = 0
        self._pending: dict[int, Pending] = {}
        self._hellos: Counter[tuple[int, int]] = Counter()

    def receive(self, listener: socket.socket) -> None:
        """Everything that has arrived by now, but no more than a turn's worth."""
        for _ in range(_DATAGRAMS_A_TURN):
            try:
                datagram, ancillary, flags, address = listener.recvmsg(
                    message.LONGEST_BYTES + 1, _ANCILLARY_BYTES
                )
            except OSError:
                return
            _close_descriptors(ancillary)
            reply = self._reply(datagram, ancillary, flags, self._somebody_is_behind(listener))
            if reply is None or not address:
                continue
            try:
                listener.sendto(reply, address)
                self._sent_ns = time.monotonic_ns()
            except OSError:
                # It has gone, or does not read: it asks again in a few seconds.
                self.unsent += 1

    def hand(self, pid: int, pending: Pending) -> bool:
        """At the next poll of that process. False: one waits for it already."""
        if pid in self._pending:
            return False
        self._pending[pid] = pending
        return True

    def take_back(self, pid: int) -> bool:
        """Whether it had not been handed out yet."""
        return self._pending.pop(pid, None) is not None

    def tick(self, now_ns: int) -> None:
        """Forgets those that have not polled for a minute."""
        for pid in [p.pid for p in self.pollers.values() if now_ns - p.polled_ns > _SILENCE_NS]:
            del self.pollers[pid]

    def _somebody_is_behind(self, listener: socket.socket) -> bool:
        """Whether an answer lies unread that came too late: it will be read as that to the next
        poll, and so on, so that a request reaches that process a poll too late."""
        return time.monotonic_ns() - self._sent_ns > _READ_NS and _unread_bytes(listener) > 0

    def _reply(
        self,
        datagram: bytes,
        ancillary: list[tuple[int, int, bytes]],
        flags: int,
        is_unread: bool,
    ) -> bytes | None:
        try:
            if flags & socket.MSG_TRUNC:
                raise FormatError("longer than any request")
            said = message.parse(datagram)
            pid, uid = _sender(ancillary)
            if uid not in (os.geteuid(), 0) and os.geteuid() != 0:
                raise FormatError("from another user")
        except FormatError as error:
            self.refused[str(error)] += 1
            return None
        if isinstance(said, message.Hello):
            self._hellos[said.job, said.device] += 1
            if len(self._hellos) > _MOST_POLLERS:
                self._hellos.clear()
            return message.welcome(self._hellos[said.job, said.device])
        configuration = self._polled(said, pid, uid, time.monotonic_ns())
        if not configuration and self._passes_over(pid, is_unread):
            return None
        return message.configuration(configuration)

    def _passes_over(self, pid: int, is_unread: bool) -> bool:
        """Who is behind reads the old answer to this poll; without a new one it is level again.
        Whose it is cannot be seen: each goes without once, which costs it nothing."""
        poller = self.pollers.get(pid)
        if poller is None or poller.since_ns == poller.polled_ns:
            return False
        passes = is_unread and not poller.was_passed_over
        poller.was_passed_over = is_unread
        return passes

    def _polled(self, poll: message.Poll, pid: int, uid: int, now_ns: int) -> str:
        known = self.pollers.get(pid)
        if known is None:
            if len(self.pollers) >= _MOST_POLLERS:
                self.refused["more processes than are kept track of"] += 1
                return ""
            known = Poller(
                pid, uid, poll.pids[0], poll.pids[1:], poll.job, poll.accepts, now_ns, now_ns
            )
            self.pollers[pid] = known
        else:
            known.period_ns = now_ns - known.polled_ns
            known.polled_ns = now_ns
            known.accepts = poll.accepts
            known.own_pid, known.ancestors, known.job = poll.pids[0], poll.pids[1:], poll.job
        if not poll.accepts or pid not in self._pending:
            return ""
        pending = self._pending.pop(pid)
        pending.handed(pid)
        return pending.write()


def _unread_bytes(listener: socket.socket) -> int:
    """What was sent from here and nobody has read; 0 where the kernel does not tell."""
    try:
        return int(struct.unpack("i", fcntl.ioctl(listener, termios.TIOCOUTQ, bytes(4)))[0])
    except OSError:
        return 0


def _sender(ancillary: list[tuple[int, int, bytes]]) -> tuple[int, int]:
    """As the kernel knows it: the pids inside a message are the sender's own claim."""
    for level, kind, data in ancillary:
        if level == socket.SOL_SOCKET and kind == socket.SCM_CREDENTIALS:
            pid, uid, _ = _CREDENTIALS.unpack_from(data)
            if pid > 0:
                return pid, uid
    raise FormatError("without a visible sender")


def _close_descriptors(ancillary: list[tuple[int, int, bytes]]) -> None:
    """Nobody has to send any; what comes must not stay open."""
    for level, kind, data in ancillary:
        if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
            for (descriptor,) in struct.iter_unpack("i", data[: len(data) // 4 * 4]):
                with contextlib.suppress(OSError):
                    os.close(descriptor)
