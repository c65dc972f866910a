"""The captures of this node: who can be asked for a trace, and who waits for one."""

from __future__ import annotations

import json
import os
import selectors
import socket
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from pilotlight import _drain
from pilotlight.agent.clients import Clients
from pilotlight.agent.errands import Errands
from pilotlight.agent.jobs import Jobs
from pilotlight.agent.pidfd import process_start_time
from pilotlight.agent.process import Process
from pilotlight.agent.session import Session
from pilotlight.agent.sockets import listen_for_errands
from pilotlight.agent.threads import threads_of
from pilotlight.capture.capture import NodeCapture
from pilotlight.capture.plan import RANK, WORKER, Candidate
from pilotlight.capture.request import TRACING, CaptureRequest
from pilotlight.errors import AgentError, NotFound, PilotlightError
from pilotlight.kineto.daemon import Daemon, Pending, Poller
from pilotlight.kineto.endpoint import FolderEndpoint, open_abstract, remove_stale_clients
from pilotlight.probe.identity import identify
from pilotlight.runtime import Runtime

_MOST_CAPTURES = 8
_LOOK_NS = 100_000_000
_CLEAN_NS = 60_000_000_000
_ROLES = {"rank": RANK, "child": WORKER}

_T = TypeVar("_T")


@dataclass
class _Waiting:
    """A client that waits for a capture, and what it was told last."""

    capture: NodeCapture
    session: Session
    told: str = ""


class Captures:
    def __init__(
        self,
        selector: selectors.BaseSelector,
        place: Runtime,
        jobs: Jobs,
        clients: Clients,
        is_standing: bool,
    ) -> None:
        """A standing agent also takes the abstract name; one that comes and goes with a job leaves
        it to whoever else may want it."""
        self.daemon = Daemon()
        self.errands = Errands(selector, listen_for_errands(place))
        self.problems: list[str] = []
        self._selector = selector
        self._jobs = jobs
        self._clients = clients
        self._waiting: list[_Waiting] = []
        self._number = 0
        self._looked_ns = 0
        self._cleaned_ns = 0
        self._starts: dict[int, int | None] = {}
        is_for_all = is_standing and os.geteuid() == 0
        opened = FolderEndpoint.open_shared if is_for_all else FolderEndpoint.open_own
        self._folder = self._try(lambda: opened(place.kineto_folder))
        self._abstract = self._try(open_abstract) if is_standing else None
        for listener in (self._folder.listener if self._folder else None, self._abstract):
            if listener is not None:
                selector.register(
                    listener, selectors.EVENT_READ, lambda _, one=listener: self._heard(one)
                )

    @property
    def is_busy(self) -> bool:
        return bool(self._waiting)

    @property
    def look_ns(self) -> int:
        """When to look again while somebody waits."""
        return self._looked_ns + _LOOK_NS

    def begin(self, session: Session, request: CaptureRequest, now_ns: int) -> NodeCapture:
        """From now on the session is told what changes. NotFound: nobody there to be asked."""
        if len(self._waiting) >= _MOST_CAPTURES:
            raise AgentError(f"{_MOST_CAPTURES} captures are under way, which is all it does")
        candidates = self._candidates(request)
        self._number += 1
        number = f"{os.getpid()}{self._number:04d}"
        uids = {uid for c in candidates if (uid := self._uid_of(c.pid)) is not None}
        if len(uids) > 1:
            raise AgentError("processes of several users: capture them one by one, by pid")
        uid = uids.pop() if uids else os.geteuid()
        self._starts |= {c.pid: process_start_time(c.pid) for c in candidates}
        capture = NodeCapture(number, request, candidates, uid, self, now_ns)
        self._waiting.append(_Waiting(capture, session))
        return capture

    def decided(
        self, session: Session, number: str, first_step: int | None, start_ns: int, now_ns: int
    ) -> None:
        """What the nodes of the job have agreed on."""
        self._find(session, number).capture.decided(first_step, start_ns, now_ns)

    def collected(self, session: Session, number: str) -> None:
        """The client has what it wants: nothing stays in the staging folder."""
        self._end(self._find(session, number))

    def keep(self, session: Session, number: str) -> None:
        """The client could not take all of it: the staging folder stays, and is the client's."""
        self._forget(self._find(session, number))

    def _find(self, session: Session, number: str) -> _Waiting:
        for waiting in self._waiting:
            if waiting.session is session and waiting.capture.number == number:
                return waiting
        raise NotFound(f"no capture {number[:40]} of this client")

    def tick(self, now_ns: int) -> None:
        """Often while somebody waits, else once a second."""
        self._looked_ns = now_ns
        for waiting in list(self._waiting):
            if waiting.session not in self._clients.sessions:
                waiting.capture.cancel()
                self._end(waiting)
                continue
            if not waiting.capture.is_over:
                waiting.capture.tick(now_ns)
            state = waiting.capture.state()
            line = json.dumps(state)
            if line != waiting.told:
                waiting.told = line
                self._clients.answer(waiting.session, {"kind": "capture", **state})

    def clean(self, now_ns: int) -> None:
        """Once a second: those who are silent, and what they left."""
        self.errands.tick(now_ns)
        self.daemon.tick(now_ns)
        if self._folder is not None and now_ns - self._cleaned_ns > _CLEAN_NS:
            self._cleaned_ns = now_ns
            remove_stale_clients(self._folder.folder)

    def status(self) -> dict[str, object]:
        return {
            "folder": str(self._folder.folder) if self._folder else None,
            "abstract": self._abstract is not None,
            "pollers": len(self.daemon.pollers),
            "captures": len(self._waiting),
            "refused": dict(self.daemon.refused),
            "unsent": self.daemon.unsent,
            "problems": list(self.problems),
        }

    def close(self) -> None:
        for waiting in list(self._waiting):
            waiting.capture.cancel()
            self._end(waiting)
        self.errands.close()
        if self._folder is not None:
            self._selector.unregister(self._folder.listener)
            self._folder.close()
        if self._abstract is not None:
            self._selector.unregister(self._abstract)
            self._abstract.close()

    # What a capture needs of the node (capture.Node).

    def poller(self, pid: int) -> Poller | None:
        return self.daemon.pollers.get(pid)

    def hand(self, pid: int, pending: Pending) -> bool:
        # Kineto says that it is idle for a while after it was asked, and drops what comes then.
        is_traced = any(
            target.pid == pid and target.state == TRACING
            for waiting in self._waiting
            for target in waiting.capture.targets
        )
        return not is_traced and self.daemon.hand(pid, pending)

    def take_back(self, pid: int) -> bool:
        return self.daemon.take_back(pid)

    def reaches(self, pid: int) -> bool:
        return self.errands.reaches(pid)

    def ask(
        self,
        pid: int,
        errand: Mapping[str, object],
        timeout_ns: int,
        answered: Callable[[Mapping[str, object]], None],
    ) -> None:
        self.errands.ask(pid, errand, timeout_ns, answered)

    def is_alive(self, pid: int) -> bool:
        started = self._starts.get(pid)
        return started is not None and process_start_time(pid) == started and not _is_zombie(pid)

    def sees(self, pid: int, folder: Path) -> bool:
        """Whether that path is the same folder for the process; true if it cannot be known."""
        try:
            theirs = Path(f"/proc/{pid}/root{folder}").stat()
        except FileNotFoundError:
            return not self.is_alive(pid)
        except OSError:
            return True
        ours = folder.stat()
        return (theirs.st_dev, theirs.st_ino) == (ours.st_dev, ours.st_ino)

    def step_ns(self, pid: int) -> int | None:
        process = self._process(pid)
        known = process.reader.live().get("step_ns") if process is not None else None
        return known if isinstance(known, int) and known > 0 else None

    def steps(self, pid: int) -> int | None:
        process = self._process(pid)
        known = process.reader.live().get("steps") if process is not None else None
        return known if isinstance(known, int) and known > 0 else None

    def phases_ns(self, pid: int) -> int | None:
        """How long the phases lasted that are over: more whenever one ends."""
        process = self._process(pid)
        if process is None:
            return None
        live: dict[str, Any] = process.reader.live()
        return int(sum(live["phases"].values()))

    def stacks(self, pid: int) -> list[dict[str, object]]:
        process = self._process(pid)
        if process is None:
            raise ValueError("it has no probe")
        return threads_of(_drain.read_stacks(pid, process.reader.python()))

    def _heard(self, listener: socket.socket) -> None:
        self.daemon.receive(listener)

    def _process(self, pid: int) -> Process | None:
        for job in self._jobs.open.values():
            for process in job.processes.values():
                if process.pid == pid and process.how_ended is None:
                    return process
        return None

    def _candidates(self, request: CaptureRequest) -> list[Candidate]:
        if request.pid is not None:
            return [self._candidate(request.pid)]
        job = self._jobs.open.get(request.job or "")
        if job is not None:
            pids = [p.pid for p in job.processes.values() if p.how_ended is None]
            if not pids:
                raise NotFound(f"job {job.name} has no process with a probe now")
        else:
            pids = [p.pid for p in self.daemon.pollers.values() if f"slurm-{p.job}" == request.job]
        if not pids:
            names = ", ".join([*self._jobs.open][:8]) or "none"
            raise NotFound(f"no job {request.job} is running here; there is: {names}")
        return [self._candidate(pid) for pid in pids]

    def _candidate(self, pid: int) -> Candidate:
        process, poller = self._process(pid), self.poller(pid)
        if process is None and poller is None:
            raise NotFound(
                f"process {pid} has no probe and asks for no traces; start it with `pilotlight run`"
            )
        identity = process.identity if process is not None else _identity_of(pid)
        rank, world_size = identity.get("rank"), identity.get("world_size")
        role = _ROLES.get(str(identity.get("role")), "main")
        return Candidate(
            pid,
            rank if type(rank) is int and role == RANK else None,
            world_size if type(world_size) is int else None,
            role,
            poller.ancestors if poller else (),
        )

    def _uid_of(self, pid: int) -> int | None:
        poller = self.poller(pid)
        return poller.uid if poller is not None else self.errands.uid_of(pid)

    def _end(self, waiting: _Waiting) -> None:
        self._forget(waiting)
        waiting.capture.staging.remove()

    def _forget(self, waiting: _Waiting) -> None:
        self._waiting.remove(waiting)
        # Another capture may watch the same processes.
        watched = {target.pid for other in self._waiting for target in other.capture.targets}
        self._starts = {pid: start for pid, start in self._starts.items() if pid in watched}

    def _try(self, opened: Callable[[], _T]) -> _T | None:
        """Draining goes on where nobody can be asked for a trace; `status` says why not."""
        try:
            return opened()
        except PilotlightError as error:
            self.problems.append(f"Kineto: {error}")
            return None


def _identity_of(pid: int) -> Mapping[str, object]:
    """What its launcher told a process without a probe, as far as this user may read it."""
    try:
        words = Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
    except OSError:
        return {}
    pairs = (word.decode(errors="replace").partition("=") for word in words)
    environment = {name: value for name, _, value in pairs}
    return vars(identify(environment, [], pid, 0, "", False, ""))


def _is_zombie(pid: int) -> bool:
    try:
        line = Path(f"/proc/{pid}/stat").read_text(errors="replace")
    except OSError:
        return True
    return line.rpartition(")")[2].split()[:1] == ["Z"]
