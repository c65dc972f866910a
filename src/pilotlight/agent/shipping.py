"""The agent's way to a collector: now and then a batch, to the outbox, then on its way."""

from __future__ import annotations

import contextlib
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence

from pilotlight import __version__
from pilotlight.agent.bringing import bring, refuse
from pilotlight.agent.checkup import Checkup
from pilotlight.agent.device_shipment import DeviceShipment
from pilotlight.agent.governor import Governor
from pilotlight.agent.header import add_places, job_facts, loss
from pilotlight.agent.job import Job
from pilotlight.agent.process import Process
from pilotlight.agent.recorder import Taken
from pilotlight.agent.shipment import Batchful, JobShipment
from pilotlight.agent.stalled import Ask
from pilotlight.agent.unsaid import rows_by_job, with_unsaid
from pilotlight.agent.unsent import Unsent
from pilotlight.recording.manifest import ClockPair
from pilotlight.ship.envelope import Value, seal
from pilotlight.ship.outbox import Outbox, Said
from pilotlight.ship.requests import Requests
from pilotlight.ship.sender import Sender
from pilotlight.ship.target import Target
from pilotlight.ship.wire import PROTOCOL

_IDLE_NS = 60_000_000_000
_TOLD_AGAIN_NS = 3_600_000_000_000
_MOST_TOLD = 50_000
_MOST_STEPS = 20_000
DROPPED = "records dropped by probes"
_COST_NS = 55_000_000_000
_ALL_NS = 1 << 62


class Shipping:
    """Nothing here may disturb recording: what cannot be sent is counted, and that is all."""

    def __init__(self, target: Target, node: str, now_ns: int) -> None:
        """AgentError: no outbox can be made."""
        self._target = target
        self._node = node
        self.outbox = Outbox(target.folder, target.spool_bytes)
        self.sender = Sender(target, self.outbox, log=_log)
        self.agent = self.outbox.agent_id()
        self.requests = Requests(target, self.agent, self.sender.clock)
        self._epoch = time.time_ns()
        self._sequence = 0
        self._shipments: dict[str, JobShipment] = {}
        self._told: set[int] = set()
        self._told_since_ns = now_ns
        self._batch_ns = int(target.batch_s * 1e9)
        self._due_ns = now_ns + self._batch_ns
        self._idle_due_ns = now_ns
        self._cost_told_ns = 0
        self._tells_cost = True
        self._counted: dict[tuple[str, str], int] = {}
        self._dropped_before = 0  # by the probes of jobs that have ended
        self._known_lost = 0
        self._unsent = Unsent(target.folder)
        self.devices = DeviceShipment()
        self._checkup = Checkup(now_ns)
        self.problems: dict[str, int] = {}
        self.sender.start()
        self.requests.start()

    def take(self, job: Job, taken: Sequence[tuple[Process, Taken]]) -> None:
        """What was just committed to a recording."""
        if job.name not in self._shipments:
            self._shipments[job.name] = JobShipment(job)
        self._shipments[job.name].add(taken)

    def answer_requests(self, jobs: Mapping[str, Job], flush: Callable[[Job], None]) -> None:
        """What the collector wants of the flight recorder; once a second."""
        while (request := self.requests.take()) is not None:
            job = jobs.get(str(request.get("job", "")))
            if job is None:
                refuse(request, "no such job here", self.requests)
                continue
            flush(job)
            best = self.sender.clock.best
            offset_ns = best.offset_ns if best else 0
            here = {process.identity.get("rank") for process in job.processes.values()}
            bring(job.folder, request, offset_ns, self._target.folder, self.requests, here)

    def process_ended(self, job: Job, process: Process, now_ns: int) -> None:
        shipment = self._shipments.get(job.name)
        if shipment is not None and process.index in shipment.processes:
            ended = shipment.processes[process.index]
            ended.end(now_ns)
            shipment.ended(ended)

    def ask_stalled(self, ask: Ask, now_ns: int) -> None:
        """Once a second; what they answer goes with the next batch."""
        for shipment in self._shipments.values():
            for one in shipment.processes.values():
                one.ask_if_quiet(now_ns, ask)

    def tick(self, jobs: Iterable[Job], clock: ClockPair, governor: Governor, now_ns: int) -> None:
        """Once a second."""
        self._checkup.tick(now_ns)
        open_jobs = list(jobs)
        if now_ns < (self._due_ns if open_jobs else self._idle_due_ns) and not self._is_full():
            return
        # By a clock of its own: a tick that comes late does not put off the batches after it.
        self._due_ns += self._batch_ns * ((now_ns - self._due_ns) // self._batch_ns + 1)
        self._idle_due_ns = now_ns + _IDLE_NS
        self._seal([(job, False) for job in open_jobs], clock, governor, now_ns)

    def _is_full(self) -> bool:
        """There is enough for a batch before its time has come."""
        parts = [one.parts for each in self._shipments.values() for one in each.processes.values()]
        steps = sum(one.steps_waiting for one in parts)
        return 2 * steps > _MOST_STEPS or any(one.is_crowded for one in parts)

    def job_ended(self, job: Job, clock: ClockPair, governor: Governor, now_ns: int) -> None:
        """Its last batch; the state and the exit code go with it."""
        self._seal([(job, True)], clock, governor, now_ns)
        self._shipments.pop(job.name, None)
        # The next job may have the same name, and begins at none.
        self._dropped_before += self._counted.get((job.name, DROPPED), 0)
        self._counted = {key: n for key, n in self._counted.items() if key[0] != job.name}

    def stop(self, jobs: Iterable[Job], clock: ClockPair, governor: Governor, now_ns: int) -> None:
        for shipment in self._shipments.values():
            for one in shipment.processes.values():
                one.launched.close()
                one.parts.close()
        self._seal([(job, False) for job in jobs], clock, governor, now_ns)
        self._checkup.close()
        self.requests.stop()
        self.sender.stop(3.0)
        self._unsent.clear()

    def status(self) -> dict[str, object]:
        best = self.sender.clock.best
        return {
            "url": self._target.url,
            "state": self.sender.state,
            "why": self.sender.why,
            "agent": self.agent,
            "sent": self.sender.sent,
            "sent_bytes": self.sender.sent_bytes,
            "waiting": len(self.outbox),
            "waiting_bytes": self.outbox.size_bytes,
            "batches_lost": self.outbox.lost.batches,
            "rows_lost": self.outbox.lost.rows,
            "offset_ns": best.offset_ns if best else None,
            "uncertainty_ns": best.uncertainty_ns if best else None,
            "captures": self.requests.delivered,
            "problems": {**self.sender.problems, **self.requests.problems, **self.problems},
        }

    def _seal(
        self,
        jobs: Sequence[tuple[Job, bool]],
        clock: ClockPair,
        governor: Governor,
        now_ns: int,
    ) -> None:
        self._tells_cost = now_ns - self._cost_told_ns >= _COST_NS
        if self._tells_cost:
            self._cost_told_ns = now_ns
        to_realtime_ns = clock.realtime_ns - clock.monotonic_ns
        places: list[dict[str, object]] = []
        facts: list[dict[str, object]] = []
        losses: list[dict[str, object]] = []
        tables: dict[str, list[list[Value]]] = {}
        texts: dict[int, tuple[int, str]] = {}
        shipments = self._shipments.values()
        pids = [one.process.pid for each in shipments for one in each.processes.values()]
        held = self.devices.held_by(pids)
        for job, is_over in jobs:
            shipment = self._shipments.setdefault(job.name, JobShipment(job))
            made = shipment.take(_ALL_NS if is_over else now_ns, to_realtime_ns)
            chosen = add_places(places, shipment, self.devices.gpus, held, to_realtime_ns)
            for index, place in chosen.items():
                process = shipment.processes[index]
                if self._tells_cost or process.is_cost_news:
                    places[place]["cost"] = process.cost()
            _join(tables, made, chosen)
            texts.update(made.texts)
            when_ns = now_ns + to_realtime_ns
            facts.append(job_facts(shipment, is_over, when_ns, self.devices.gpus))
            losses += self._losses(job, shipment, when_ns)
            _forget_ended(shipment)
        if len(tables.get("steps", ())) > _MOST_STEPS:
            beyond = len(tables["steps"]) - _MOST_STEPS
            del tables["steps"][_MOST_STEPS:]
            losses.append(loss(jobs[0][0].name, "steps beyond a batch", beyond, clock.realtime_ns))
        self.devices.take_rows(places, tables, to_realtime_ns)
        losses = with_unsaid(losses, self.outbox.lost.unsaid, now_ns + to_realtime_ns)
        tables["names"] = self._untold(texts, now_ns)
        self._put(places, facts, losses, tables, governor, now_ns + to_realtime_ns)
        self._unsent.note([job.name for job, _ in jobs], now_ns + to_realtime_ns)

    def _put(
        self,
        places: list[dict[str, object]],
        facts: list[dict[str, object]],
        losses: list[dict[str, object]],
        tables: Mapping[str, list[list[Value]]],
        governor: Governor,
        realtime_ns: int,
    ) -> None:
        self._sequence += 1
        lost = self.outbox.lost
        header = {
            "protocol": list(PROTOCOL),
            "agent": self.agent,
            "epoch": self._epoch,
            "sequence": self._sequence,
            "lowest": self.outbox.lowest(self._epoch, self._sequence),
            "cluster": self._target.cluster,
            "node": self._node,
            "version": __version__,
            "made_ns": realtime_ns,
            "places": places,
            "jobs": facts,
            "losses": losses,
            "events": self.devices.take_events(realtime_ns - time.monotonic_ns()),
            "facts": {
                "batch_s": self._target.batch_s,
                "cpu_ratio": round(max(0.0, governor.cpu_ratio()), 6),
                "rss_bytes": governor.latest.rss_bytes,
                "spool_bytes": self.outbox.size_bytes,
                "batches_lost": lost.batches,
                "rows_lost": lost.rows,
                "records_dropped": self._records_dropped(),
                "gpus": self.devices.gpus,
                **(budget(governor) if self._tells_cost else {}),
                **self._checked(),
            },
        }
        rows = sum(map(len, tables.values()))
        said = Said(rows_by_job(places, tables), losses)
        try:
            self.outbox.put(self._epoch, self._sequence, rows, seal(header, tables), said)
        except OSError as error:
            self._note(f"outbox: {error.strerror or error}")
        self.sender.wake()

    def _records_dropped(self) -> int:
        """By the probes of all jobs since this agent began."""
        now = sum(count for (_, what), count in self._counted.items() if what == DROPPED)
        return self._dropped_before + now

    def _checked(self) -> dict[str, object]:
        """What the doctor says is sent when it was asked anew; the collector keeps the latest."""
        found = self._checkup.take()
        return {} if found is None else {"doctor": found}

    def _untold(self, texts: Mapping[int, tuple[int, str]], now_ns: int) -> list[list[Value]]:
        """Definitions that went down with a lost batch are told again, and all now and then."""
        lost = self.outbox.lost.batches
        is_long_ago = now_ns - self._told_since_ns > _TOLD_AGAIN_NS
        if lost != self._known_lost or is_long_ago or len(self._told) > _MOST_TOLD:
            self._told.clear()
            self._known_lost, self._told_since_ns = lost, now_ns
        new = {id: text for id, text in texts.items() if id not in self._told}
        self._told.update(new)
        return [[id, kind, text[:16_000]] for id, (kind, text) in new.items()]

    def _losses(self, job: Job, shipment: JobShipment, time_ns: int) -> list[dict[str, object]]:
        """What is new since the last batch."""
        recorder = job.recorder
        counts = {
            DROPPED: job.ended_dropped + sum(process.dropped for process in job.processes.values()),
            "rows dropped by the recorder": recorder.rows_dropped + recorder.windows.rows_dropped,
            "intervals beyond the agent's memory": shipment.left_out,
        }
        found = []
        for what, count in counts.items():
            new = count - self._counted.get((job.name, what), 0)
            self._counted[job.name, what] = count
            if new > 0:
                found.append(loss(job.name, what, new, time_ns))
        seconds = self._unsent.seconds(job.name, time_ns)
        if seconds:
            found.append(
                loss(job.name, "seconds that a killed agent had not sent", seconds, time_ns)
            )
        return found

    def _note(self, problem: str) -> None:
        if len(self.problems) < 32 or problem in self.problems:
            self.problems[problem] = self.problems.get(problem, 0) + 1


def _log(text: str) -> None:
    """Standard error is the agent's log; it may be closed."""
    with contextlib.suppress(OSError, ValueError):
        print(text, file=sys.stderr, flush=True)


def budget(governor: Governor) -> dict[str, object]:
    return {
        "cpu_ceiling_ratio": governor.cpu_ceiling_ratio,
        "memory_ceiling_bytes": governor.memory_ceiling_bytes,
        "level": governor.level,
    }


def _join(tables: dict[str, list[list[Value]]], made: Batchful, places: Mapping[int, int]) -> None:
    for name, rows in made.tables().items():
        kept = tables.setdefault(name, [])
        for row in rows:
            row[0] = places[int(row[0])]
            kept.append(row)


def _forget_ended(shipment: JobShipment) -> None:
    for index in [index for index, one in shipment.processes.items() if one.ended_ns]:
        shipment.ended_left_out += shipment.processes.pop(index).parts.left_out
