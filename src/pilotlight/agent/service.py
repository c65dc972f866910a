"""The agent's loop: one thread that waits for probes, clients and the time."""

from __future__ import annotations

import os
import selectors
import time
from dataclasses import asdict
from typing import TYPE_CHECKING

from pilotlight import __version__
from pilotlight.agent import requests, status
from pilotlight.agent.captures import Captures
from pilotlight.agent.clients import Clients
from pilotlight.agent.clocks import Clocks, read_pair
from pilotlight.agent.closing import end_missing, end_unseen, has_ended, may_go_on, summary
from pilotlight.agent.counters.board import Board
from pilotlight.agent.counters.kills import Kills
from pilotlight.agent.counters.sources import all_sources
from pilotlight.agent.faults import Faults
from pilotlight.agent.feed import publish_taken
from pilotlight.agent.governor import Governor, own_usage, release_free_memory
from pilotlight.agent.hello import Control
from pilotlight.agent.job import Job
from pilotlight.agent.jobs import Jobs
from pilotlight.agent.pidfd import process_start_time
from pilotlight.agent.probes import Probes
from pilotlight.agent.process import Identity, Process
from pilotlight.agent.settings import Settings, within_limits
from pilotlight.agent.signals import Signals
from pilotlight.agent.sockets import listen_for_clients, listen_for_probes
from pilotlight.agent.tiers import tier_requests
from pilotlight.place import node_name
from pilotlight.recording.manifest import AgentFacts
from pilotlight.runtime import Runtime
from pilotlight.tier import TierRequest, tier_status, widest

if TYPE_CHECKING:
    from pilotlight.agent.shipping import Shipping

_TICK_NS = 1_000_000_000
_IDLE_NS = 5_000_000_000
_FINISH_NS = 3_000_000_000
_FINISHING_NS = 20_000_000
_LOOK_NS = 60_000_000_000
_DEFAULT_PERIOD_NS = 10_000_000


class Service:
    """Owns everything; `run` returns when it is time to go."""

    def __init__(self, settings: Settings, place: Runtime) -> None:
        self.settings = settings = within_limits(settings)
        self.place = place
        self.started_ns = time.monotonic_ns()
        self.governor = Governor(
            settings.cpu_ceiling_ratio, settings.memory_ceiling_bytes, own_usage()
        )
        self.clocks = Clocks(read_pair())
        self.jobs = Jobs(settings, place.jobs, self.clocks, self.facts())
        self.selector = selectors.DefaultSelector()
        self.faults = Faults()
        self.probes = Probes(
            self.selector,
            listen_for_probes(place),
            # Grows from agent to agent within a boot, and no segment survives that.
            self.started_ns,
            settings.most_processes,
            self._open_job,
            self._joined,
        )
        self.clients = Clients(
            self.selector,
            listen_for_clients(place),
            settings.most_clients,
            lambda session, request: requests.answer(self, session, request),
        )
        self.board = Board(
            all_sources(self._recorded_pids), settings.counters_period_ns, self.started_ns
        )
        self.kills = Kills()
        self.shipping = _shipping(settings, self.started_ns)
        self.captures = Captures(
            self.selector, place, self.jobs, self.clients, not settings.ends_itself
        )
        self._is_stopping = False
        self._tick_due_ns = self.started_ns
        self._looked_ns: int | None = None
        self._idle_since_ns = self.started_ns
        self._period_factor = 1
        self._signals = Signals()
        self.selector.register(self._signals, selectors.EVENT_READ, self._signalled)

    def run(self) -> None:
        now_ns = self.now_ns()
        self.jobs.take_over(now_ns)
        while not self._is_stopping:
            for key, mask in self.selector.select(self._wait_s(now_ns)):
                # One that was ready may have been closed by the one before it.
                if self.selector.get_map().get(key.fd) is key:
                    with self.faults.apart(key.fileobj):
                        key.data(mask)
            now_ns = self.now_ns()
            self.probes.poll_due(now_ns, self.governor.pace)
            self._commit_due(now_ns)
            self._close_finished(now_ns)
            if self.captures.is_busy and now_ns >= self.captures.look_ns:
                with self.faults.apart("captures"):
                    self.captures.tick(now_ns)
            if now_ns >= self._tick_due_ns:
                self._tick_due_ns = now_ns + _TICK_NS
                self._tick(now_ns)
        self._stop()

    def now_ns(self) -> int:
        return time.monotonic_ns()

    def facts(self) -> AgentFacts:
        return AgentFacts(
            pid=os.getpid(),
            version=__version__,
            start_time=process_start_time(os.getpid()) or 0,
            rss_bytes=self.governor.latest.rss_bytes,
        )

    def status(self) -> dict[str, object]:
        now_ns = self.now_ns()
        processes, left_out = status.processes_status(self.jobs.open.values(), now_ns)
        return {
            "agent": {
                "pid": os.getpid(),
                "version": __version__,
                "age_ns": now_ns - self.started_ns,
                "runtime": str(self.place.folder),
                "memory": str(self.settings.memory_folder or ""),
                "ends_itself": self.settings.ends_itself,
                "budget_bytes": self.jobs.budget.budget_bytes,
                "limit_bytes": self.jobs.budget.limit_bytes,
                "shrunk": self.jobs.budget.shrunk,
                "disk_bytes": self.jobs.disk_bytes,
                "processes": self.probes.count,
                "refused": dict(self.probes.refused),
                "problems": {**self.probes.problems, **self.jobs.problems},
                "faults": dict(self.faults.counts),
                "clients_refused": self.clients.refused,
                "collector": self.shipping.status() if self.shipping else None,
                "kineto": self.captures.status(),
                **status.governor_status(self.governor),
            },
            "jobs": [
                {**status.job_status(job), "gpu": tier_status(self._tier_requests(job))}
                for job in self.jobs.open.values()
            ],
            "processes": processes,
            "processes_left_out": left_out,
            "devices": self.board.status(now_ns),
            "clients": [status.client_status(s, now_ns) for s in self.clients.sessions],
        }

    def looked_at(self) -> None:
        """Somebody wants names and functions: they are kept for a while from now on."""
        self._looked_ns = self.now_ns()
        for job in self.jobs.open.values():
            job.look(True)

    def apply_tiers(self) -> None:
        """The widest request for each job decides what its probes collect."""
        for job in self.jobs.open.values():
            job.set_tier(widest(self._tier_requests(job)))

    def _tier_requests(self, job: Job) -> list[TierRequest]:
        has_collector = self.shipping is not None
        return tier_requests(job.name, self.clients.sessions, has_collector, self.now_ns())

    def flush(self, job: Job) -> None:
        """Everything published so far goes to disk, sums too."""
        now_ns = self.now_ns()
        self.probes.poll_all(job, now_ns, self.governor.pace)
        self._commit(job, now_ns)
        job.recorder.flush_windows(now_ns)
        self.jobs.write_manifest(job, self.facts())

    def _open_job(self, segment: str, identity: Identity, now_ns: int) -> Job:
        for job in self.jobs.open.values():
            if segment in job.positions:
                return job
        command = identity.facts.get("command")
        words = [str(word) for word in command] if isinstance(command, list) else []
        return self.jobs.record(identity.job, None, words, now_ns)

    def _joined(self, job: Job, process: Process) -> None:
        job.look(self._looked_ns is not None)
        if self.settings.counters_period_ns:
            self.kills.watch(process.pid)
        # An agent before this one may have asked for another.
        process.send(Control.TIER, job.tier)
        if job.is_paused:
            process.send(Control.PAUSE)
        if job.period_ns is not None:
            process.send(Control.PERIOD, argument=job.period_ns)
        self._publish_process(job, process, "start")

    def _publish_process(self, job: Job, process: Process, event: str) -> None:
        row = {"event": event, "process": process.index, "pid": process.pid}
        self.clients.publish("processes", job.name, [{**row, "how": process.how_ended}])

    def _wait_s(self, now_ns: int) -> float:
        due_ns = self._tick_due_ns
        poll_ns = self.probes.next_poll_ns()
        if poll_ns is not None:
            due_ns = min(due_ns, poll_ns)
        if self.captures.is_busy:
            due_ns = min(due_ns, self.captures.look_ns)
        if any(job.finish is not None for job in self.jobs.open.values()):
            due_ns = min(due_ns, now_ns + _FINISHING_NS)
        return max(0.0, (due_ns - now_ns) / 1e9)

    def _commit_due(self, now_ns: int) -> None:
        for job in list(self.jobs.open.values()):
            if job.is_due(now_ns, self.governor.pace.commit_ns):
                with self.faults.apart(job.name):
                    self._commit(job, now_ns)

    def _commit(self, job: Job, now_ns: int) -> None:
        taken = job.commit(now_ns, self.jobs.share_bytes)
        self.jobs.commit(job, now_ns)
        publish_taken(self.clients, job.name, taken)
        if self.shipping is not None:
            with self.faults.apart("shipping"):
                self.shipping.take(job, taken)
        for process in job.remove_ended(now_ns):
            if self.shipping is not None:
                self.shipping.process_ended(job, process, now_ns)
            self._publish_process(job, process, "end")
            self.probes.forget(process)

    def _tick(self, now_ns: int) -> None:
        self.clocks.observe(read_pair())
        with self.faults.apart("governor"):
            self._govern()
        with self.faults.apart("devices"):
            self._read_devices(now_ns)
        self.probes.tick(now_ns)
        with self.faults.apart("captures"):
            self.captures.clean(now_ns)
        with self.faults.apart("clients"):
            self._tell_clients(now_ns)
        facts = self.facts()
        for job in list(self.jobs.open.values()):
            with self.faults.apart(job.name):
                self._tick_job(job, facts, now_ns)
        if self.shipping is not None:
            with self.faults.apart("shipping"):
                self.shipping.answer_requests(self.jobs.open, self.flush)
                self.shipping.ask_stalled(self.captures.ask, now_ns)
                jobs = self.jobs.open.values()
                self.shipping.tick(jobs, self.clocks.pairs[-1], self.governor, now_ns)
        self._end_if_idle(now_ns)

    def _govern(self) -> None:
        usage = own_usage()
        if self.governor.wants_release(usage):
            release_free_memory()
            usage = own_usage()
        self.governor.observe(usage)
        if usage.rss_bytes > self.settings.memory_ceiling_bytes // 2:
            self.probes.release_pages()
        self._apply_period()

    def _tell_clients(self, now_ns: int) -> None:
        self.clients.tick(now_ns, self.governor.squeeze)
        if any(session.subscribed for session in self.clients.sessions):
            self._looked_ns = now_ns
        if self._looked_ns is not None and now_ns - self._looked_ns > _LOOK_NS:
            self._looked_ns = None
            for job in self.jobs.open.values():
                job.look(False)
        self.apply_tiers()
        for job in self.jobs.open.values():
            if self.clients.wants("coverage", job.name):
                rows = [asdict(coverage) for coverage in job.coverage()]
                self.clients.publish("coverage", job.name, rows)
        if self.clients.wants("status", None):
            self.clients.publish("status", None, [self.status()])

    def _tick_job(self, job: Job, facts: AgentFacts, now_ns: int) -> None:
        end_missing(job, now_ns)
        if has_ended(job, now_ns, self.probes.somebody_comes):
            self._close(job, facts)
        else:
            self.jobs.write_manifest(job, facts)
            self._answer_late_finish(job, now_ns)

    def _recorded_pids(self) -> list[int]:
        """Called by the thread of a source: takes a copy, and may miss one that comes just now."""
        return [
            process.pid
            for job in list(self.jobs.open.values())
            for process in list(job.processes.values())
        ]

    def _read_devices(self, now_ns: int) -> None:
        """What the node's devices said goes to every recording that is open."""
        news = self.board.look(now_ns, bool(self.jobs.open), 1 + self.governor.level)
        for job in self.jobs.open.values():
            job.recorder.devices.add(news.values, news.events, news.windows)
        if self.shipping is not None:
            self.shipping.devices.add(news.windows, news.events, self.board.models)
        self._read_kills(now_ns)
        if news.values and self.clients.wants("devices", None):
            self.clients.publish("devices", None, [self.board.status(now_ns)])

    def _read_kills(self, now_ns: int) -> bool:
        """Whether there are any."""
        events = [(now_ns, event) for event in self.kills.news()]
        self.board.happened(events)
        for job in self.jobs.open.values():
            job.recorder.devices.add((), events, ())
        if self.shipping is not None:
            self.shipping.devices.add((), events, self.board.models)
        return bool(events)

    def _apply_period(self) -> None:
        factor = self.governor.pace.period_factor
        if factor == self._period_factor:
            return
        self._period_factor = factor
        for job in self.jobs.open.values():
            for process in job.processes.values():
                base_ns = process.base_period_ns(job.period_ns or _DEFAULT_PERIOD_NS)
                process.send(Control.PERIOD, argument=base_ns * factor)

    def _close_finished(self, now_ns: int) -> None:
        """Jobs that somebody waits for do not wait for the next tick."""
        for job in [job for job in self.jobs.open.values() if job.finish is not None]:
            with self.faults.apart(job.name):
                if has_ended(job, now_ns, self.probes.somebody_comes):
                    self._close(job, self.facts())

    def _close(self, job: Job, facts: AgentFacts) -> None:
        now_ns = self.now_ns()
        if self._read_kills(now_ns):
            self._commit(job, now_ns)
        end_unseen(job, now_ns)
        self.jobs.close(job, facts)
        if not self.jobs.open:
            self.kills.forget()
        if self.shipping is not None:
            with self.faults.apart("shipping"):
                self.shipping.job_ended(job, self.clocks.pairs[-1], self.governor, self.now_ns())
        for session in job.finish.waiting if job.finish else ():
            self.clients.answer(session, {"ok": True, **summary(job)})

    def _answer_late_finish(self, job: Job, now_ns: int) -> None:
        """Processes that outlive the command: the job goes on, whoever waits does not."""
        finish = job.finish
        if finish is None or now_ns - finish.since_ns < _FINISH_NS:
            return
        waiting, finish.waiting = finish.waiting, []
        for session in waiting:
            self.flush(job)
            self.clients.answer(session, {"ok": True, **summary(job)})

    def _end_if_idle(self, now_ns: int) -> None:
        if self.probes.count or self.clients.sessions or self.jobs.open:
            self._idle_since_ns = now_ns
        elif self.settings.ends_itself and now_ns - self._idle_since_ns >= _IDLE_NS:
            self._is_stopping = True

    def _stop(self) -> None:
        """The last drain; jobs that go on are left ready for the next agent."""
        now_ns = self.now_ns()
        self.governor.observe(own_usage())
        facts = self.facts()
        stopped = list(self.jobs.open.values())
        for job in stopped:
            with self.faults.apart(job.name):
                self.probes.poll_all(job, now_ns, self.governor.pace)
                self._commit(job, now_ns)
                if may_go_on(job):
                    self.jobs.suspend(job, facts)
                else:
                    self._close(job, facts)
        self.board.stop()
        if self.shipping is not None:
            # Before their segments are let go: the last batch tells of them too.
            with self.faults.apart("shipping"):
                jobs = self.jobs.open.values()
                self.shipping.stop(jobs, self.clocks.pairs[-1], self.governor, now_ns)
        for job in stopped:
            for process in list(job.processes.values()):
                self.probes.forget(process)
        self.captures.close()
        self.probes.close()
        self.clients.close()
        self.selector.close()
        self._signals.close()
        self.place.probe_socket.unlink(missing_ok=True)
        self.place.client_socket.unlink(missing_ok=True)
        self.place.errand_socket.unlink(missing_ok=True)

    def _signalled(self, _: int) -> None:
        self._is_stopping = True


def _shipping(settings: Settings, now_ns: int) -> Shipping | None:
    """HTTP and TLS are loaded only where there is a collector."""
    if settings.collector is None:
        return None
    from pilotlight.agent.shipping import Shipping

    return Shipping(settings.collector, node_name(), now_ns)
