"""The probes of this node: taken in, polled, let go. What is wrong with one never meets another."""

from __future__ import annotations

import contextlib
import heapq
import os
import select
import selectors
import socket
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass

from pilotlight import _drain
from pilotlight.agent import hello
from pilotlight.agent.governor import Pace
from pilotlight.agent.hello import Control, Reason, Refused
from pilotlight.agent.job import Job
from pilotlight.agent.pidfd import exit_code, maps_file, open_peer, open_process
from pilotlight.agent.process import Identity, Process, started
from pilotlight.agent.sockets import peer_of
from pilotlight.errors import PilotlightError

_HELLO_NS = 5_000_000_000
_EXEC_NS = 2_000_000_000
_MOST_STRANGERS = 256
_ACCEPTS_A_TURN = 64
_GRID_NS = 5_000_000
_MOST_KINDS = 32


@dataclass
class _Stranger:
    """A connection that has not said hello yet."""

    connection: socket.socket
    since_ns: int


class Probes:
    def __init__(
        self,
        selector: selectors.BaseSelector,
        listener: socket.socket,
        epoch: int,
        most: int,
        open_job: Callable[[str, Identity, int], Job],
        joined: Callable[[Job, Process], None],
    ) -> None:
        """`open_job` finds or makes the job of a new process; `joined` hears of the process."""
        self.refused: Counter[str] = Counter()
        self.problems: Counter[str] = Counter()
        self._selector = selector
        self._listener = listener
        self._epoch = epoch
        self._most = most
        self._open_job = open_job
        self._joined = joined
        self._strangers: dict[int, _Stranger] = {}
        self._processes: dict[str, tuple[Job, Process, int]] = {}
        self._polls: list[tuple[int, int, str]] = []
        self._turn = 0
        selector.register(listener, selectors.EVENT_READ, self._accept)

    @property
    def count(self) -> int:
        return len(self._processes)

    @property
    def somebody_comes(self) -> bool:
        """Whether anybody has connected whose hello was not heard yet."""
        return bool(self._strangers) or bool(select.select([self._listener], [], [], 0)[0])

    def next_poll_ns(self) -> int | None:
        return self._polls[0][0] if self._polls else None

    def poll_due(self, now_ns: int, pace: Pace) -> None:
        while self._polls and self._polls[0][0] <= now_ns:
            _, _, segment = heapq.heappop(self._polls)
            known = self._processes.get(segment)
            if known is None or known[1].how_ended is not None:
                continue
            job, process, _ = known
            self._schedule(segment, now_ns + self._poll(process, now_ns, pace))
            job.is_urgent = job.is_urgent or process.is_urgent

    def poll_all(self, job: Job, now_ns: int, pace: Pace) -> None:
        """Reads every process of a job now, for somebody who waits."""
        for process in job.processes.values():
            if process.how_ended is None:
                self._poll(process, now_ns, pace)

    def tick(self, now_ns: int) -> None:
        """Once a second: connections that never said hello, processes that hung up."""
        for stranger in list(self._strangers.values()):
            if now_ns - stranger.since_ns > _HELLO_NS:
                self.refused["silent"] += 1
                self._drop_stranger(stranger)
        for _, process, inode in list(self._processes.values()):
            if process.how_ended is not None or process.hung_up_ns is None:
                continue
            if now_ns - process.hung_up_ns >= _EXEC_NS and not maps_file(process.pid, inode):
                process.finish("exec", now_ns)

    def release_pages(self) -> None:
        """Segments belong to the jobs: what reading brought into our memory can go any time."""
        for _, process, _ in self._processes.values():
            process.reader.release_pages()

    def forget(self, process: Process) -> None:
        """The process has ended and is on record."""
        self._processes.pop(process.segment, None)
        for fileobj in (process.link, process.pidfd):
            if fileobj is not None:
                self._unregister(fileobj)
        process.close()

    def close(self) -> None:
        self._unregister(self._listener)
        self._listener.close()
        for stranger in list(self._strangers.values()):
            self._drop_stranger(stranger)

    def _poll(self, process: Process, now_ns: int, pace: Pace) -> int:
        try:
            return process.poll(now_ns, pace)
        except (ValueError, MemoryError) as error:
            _count(self.problems, f"pid {process.pid}: {error}")
            process.finish("gone", now_ns)
            return pace.poll_idle_ns

    def _schedule(self, segment: str, due_ns: int) -> None:
        # On a grid, so that many processes do not mean many times to wake up.
        due_ns += -due_ns % _GRID_NS
        self._turn += 1
        heapq.heappush(self._polls, (due_ns, self._turn, segment))

    def _accept(self, _: int) -> None:
        for _ in range(_ACCEPTS_A_TURN):
            try:
                connection, _ = self._listener.accept()
            except BlockingIOError:
                return
            except OSError:
                self.refused["no descriptor left"] += 1
                return
            if len(self._strangers) >= _MOST_STRANGERS:
                self._refuse(connection, Refused(Reason.TOO_MANY, "too many at once"))
                continue
            connection.setblocking(False)
            stranger = _Stranger(connection, time.monotonic_ns())
            self._strangers[connection.fileno()] = stranger
            self._selector.register(
                connection, selectors.EVENT_READ, lambda _, s=stranger: self._hello(s)
            )

    def _hello(self, stranger: _Stranger) -> None:
        connection = stranger.connection
        self._unregister(connection)
        self._strangers.pop(connection.fileno(), None)
        descriptors: list[int] = []
        try:
            packet, descriptors = hello.receive(connection)
            self._take_in(connection, packet, descriptors)
        except Refused as refusal:
            self._refuse(connection, refusal)
        except (OSError, PilotlightError) as error:
            _count(self.problems, f"hello: {error}")
            connection.close()
        finally:
            for descriptor in descriptors:
                os.close(descriptor)

    def _take_in(self, connection: socket.socket, packet: bytes, descriptors: list[int]) -> None:
        peer = peer_of(connection)
        if not (peer.is_trusted or os.geteuid() == 0):
            raise Refused(Reason.CREDENTIALS, "another user")
        said = hello.parse(packet)
        if len(descriptors) != 1:
            raise Refused(Reason.SEGMENT, f"{len(descriptors)} descriptors")
        hello.check_descriptor(descriptors[0], said)
        try:
            look = _drain.Reader(descriptors[0], 0, 0)
        except ValueError as error:
            raise Refused(Reason.SEGMENT, str(error)) from None
        known = self._processes.get(look.segment_id)
        if known is not None:
            self._come_back(known, connection, peer.pid, os.fstat(descriptors[0]).st_ino)
            return
        if len(self._processes) >= self._most:
            raise Refused(Reason.TOO_MANY, "too many")
        now_ns = time.monotonic_ns()
        identity = Identity.parse(look.identity(), look.pid)
        job = self._open_job(look.segment_id, identity, now_ns)
        facts = started(look, identity.facts, (now_ns, time.time_ns()))
        index = job.recorder.roster.start(facts)
        reader = _drain.Reader(descriptors[0], index, self._epoch)
        positions = job.positions.get(look.segment_id)
        if positions is not None and not (isinstance(positions, dict) and reader.resume(positions)):
            self.problems["positions in a journal make no sense: some records may be missing"] += 1
        pidfd = open_peer(connection)
        if pidfd is None:
            pidfd = open_process(peer.pid, look.start_time)
        process = Process(reader, index, identity.facts, connection, pidfd, peer.pid, now_ns)
        inode = os.fstat(descriptors[0]).st_ino
        look.close()
        self._processes[process.segment] = (job, process, inode)
        job.add(process)
        self._watch(process)
        process.send(Control.ACCEPTED, argument=self._epoch)
        self._schedule(process.segment, now_ns)
        self._joined(job, process)

    def _come_back(
        self, known: tuple[Job, Process, int], connection: socket.socket, pid: int, inode: int
    ) -> None:
        """The same segment again: its probe lost the line to us, or somebody pretends."""
        _, process, known_inode = known
        if process.pid != pid or inode != known_inode or process.how_ended is not None:
            raise Refused(Reason.SEGMENT, "this segment is another process's")
        if process.link is not None:
            self._unregister(process.link)
            process.link.close()
        process.link = connection
        process.hung_up_ns = None
        self._watch_link(process)
        process.send(Control.ACCEPTED, argument=self._epoch)

    def _watch(self, process: Process) -> None:
        self._watch_link(process)
        if process.pidfd is not None:
            self._selector.register(
                process.pidfd, selectors.EVENT_READ, lambda _, p=process: self._died(p)
            )

    def _watch_link(self, process: Process) -> None:
        assert process.link is not None
        self._selector.register(
            process.link, selectors.EVENT_READ, lambda _, p=process: self._heard(p)
        )

    def _heard(self, process: Process) -> None:
        """A probe says nothing after its hello: this is a hang-up, or somebody who talks."""
        assert process.link is not None
        try:
            packet = process.link.recv(64)
        except BlockingIOError:
            return
        except OSError:
            packet = b""
        if packet:
            _count(self.problems, f"pid {process.pid}: said more than hello")
        self._unregister(process.link)
        process.link.close()
        process.link = None
        process.hung_up_ns = time.monotonic_ns()
        if process.pidfd is None:
            # Dead before we could take a handle, or in a container whose pids we do not see.
            process.finish("died", process.hung_up_ns)

    def _died(self, process: Process) -> None:
        assert process.pidfd is not None
        self._unregister(process.pidfd)
        code = exit_code(process.pidfd, process.pid, process.reader.start_time)
        process.finish("died", time.monotonic_ns(), code)

    def _refuse(self, connection: socket.socket, refusal: Refused) -> None:
        _count(self.refused, f"{refusal.reason.name.lower()}: {refusal}")
        with contextlib.suppress(OSError):
            connection.setblocking(False)
            connection.send(hello.control(Control.REFUSED, refusal.reason))
        connection.close()

    def _drop_stranger(self, stranger: _Stranger) -> None:
        self._strangers.pop(stranger.connection.fileno(), None)
        self._unregister(stranger.connection)
        stranger.connection.close()

    def _unregister(self, fileobj: socket.socket | int) -> None:
        with contextlib.suppress(KeyError, ValueError):
            self._selector.unregister(fileobj)


def _count(counts: Counter[str], what: str) -> None:
    """Kinds may be as many as processes: the oldest become others."""
    counts[what] += 1
    while len(counts) > _MOST_KINDS:
        counts["others"] += counts.pop(next(kind for kind in counts if kind != "others"))
