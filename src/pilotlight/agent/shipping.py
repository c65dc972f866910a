"""The agent's way to a collector: every 10 s a batch, first to the outbox, then on its way."""

from __future__ import annotations

import contextlib
import json
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path

from pilotlight import __version__
from pilotlight.agent.bringing import bring
from pilotlight.agent.checkup import Checkup
from pilotlight.agent.counters.rows import WindowRow
from pilotlight.agent.counters.source import Event
from pilotlight.agent.governor import Governor
from pilotlight.agent.job import Job
from pilotlight.agent.process import Process
from pilotlight.agent.recorder import Taken
from pilotlight.agent.shipment import Batchful, JobShipment, ProcessShipment
from pilotlight.recording.manifest import ClockPair
from pilotlight.recording.schema import WINDOW_NS
from pilotlight.ship.envelope import Value, seal
from pilotlight.ship.outbox import Outbox
from pilotlight.ship.requests import Requests
from pilotlight.ship.sender import Sender
from pilotlight.ship.target import Target
from pilotlight.ship.wire import PROTOCOL

_IDLE_NS = 60_000_000_000
_TOLD_AGAIN_NS = 3_600_000_000_000
_MOST_TOLD = 50_000
_MOST_STEPS = 20_000
_ALL_NS = 1 << 62
_MOST_COUNTERS = 20_000
_MOST_EVENTS = 1000
# In the store the unit is part of the name.
_UNITS = {
    "%": ("_ratio", 0.01),
    "°C": ("_c", 1.0),
    "MHz": ("_mhz", 1.0),
    "W": ("_w", 1.0),
    "J": ("_j", 1.0),
    "B": ("_bytes", 1.0),
    "B/s": ("_bytes_per_s", 1.0),
}
_THROTTLES = ("held_by_temperature", "held_by_board", "held_by_reliability")
_UNSENT = "unsent.json"


class Shipping:
    """Nothing here may disturb recording: what cannot be sent is counted, and that is all."""

    def __init__(self, target: Target, node: str, now_ns: int) -> None:
        """AgentError: no outbox can be made."""
        self._target = target
        self._node = node
        self.outbox = Outbox(target.folder, target.spool_bytes)
        self.sender = Sender(target, self.outbox)
        self.agent = self.outbox.agent_id()
        self.requests = Requests(target, self.agent, self.sender.clock)
        self._epoch = time.time_ns()
        self._sequence = 0
        self._shipments: dict[str, JobShipment] = {}
        self._told: set[int] = set()
        self._told_since_ns = now_ns
        self._due_ns = now_ns + WINDOW_NS
        self._idle_due_ns = now_ns
        self._counted: dict[tuple[str, str], int] = {}
        self._known_lost = 0
        self._left_by_a_killed = self._unsent()
        self._device_windows: list[WindowRow] = []
        self._device_events: list[tuple[int, Event]] = []
        self._models: Mapping[str, str] = {}
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
                self.requests.refuse(str(request.get("capture", "")), "no such job here")
                continue
            flush(job)
            best = self.sender.clock.best
            offset_ns = best.offset_ns if best else 0
            here = {process.identity.get("rank") for process in job.processes.values()}
            bring(job.folder, request, offset_ns, self._target.folder, self.requests, here)

    def process_ended(self, job: Job, process: Process, now_ns: int) -> None:
        shipment = self._shipments.get(job.name)
        if shipment is not None and process.index in shipment.processes:
            shipment.processes[process.index].end(now_ns)

    def devices(
        self,
        windows: Sequence[WindowRow],
        events: Sequence[tuple[int, Event]],
        models: Mapping[str, str],
    ) -> None:
        """What the node's counters said; `models` by device."""
        self._models = models
        self._device_windows = [*self._device_windows, *windows][-_MOST_COUNTERS:]
        self._device_events = [*self._device_events, *events][-_MOST_EVENTS:]

    def tick(self, jobs: Iterable[Job], clock: ClockPair, governor: Governor, now_ns: int) -> None:
        """Once a second."""
        self._checkup.tick(now_ns)
        open_jobs = list(jobs)
        if now_ns < (self._due_ns if open_jobs else self._idle_due_ns):
            return
        self._due_ns = now_ns + WINDOW_NS
        self._idle_due_ns = now_ns + _IDLE_NS
        self._seal([(job, False) for job in open_jobs], clock, governor, now_ns)

    def job_ended(self, job: Job, clock: ClockPair, governor: Governor, now_ns: int) -> None:
        """Its last batch; the state and the exit code go with it."""
        self._seal([(job, True)], clock, governor, now_ns)
        self._shipments.pop(job.name, None)

    def stop(self, jobs: Iterable[Job], clock: ClockPair, governor: Governor, now_ns: int) -> None:
        for shipment in self._shipments.values():
            for one in shipment.processes.values():
                one.launched.close()
        self._seal([(job, False) for job in jobs], clock, governor, now_ns)
        self.requests.stop()
        self.sender.stop(3.0)
        with contextlib.suppress(OSError):
            (self._target.folder / _UNSENT).unlink()

    def status(self) -> dict[str, object]:
        best = self.sender.clock.best
        return {
            "url": self._target.url,
            "state": self.sender.state,
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
        to_realtime_ns = clock.realtime_ns - clock.monotonic_ns
        places: list[dict[str, object]] = []
        facts: list[dict[str, object]] = []
        losses: list[dict[str, object]] = []
        tables: dict[str, list[list[Value]]] = {}
        texts: dict[int, tuple[int, str]] = {}
        for job, is_over in jobs:
            shipment = self._shipments.setdefault(job.name, JobShipment(job))
            made = shipment.take(_ALL_NS if is_over else now_ns, to_realtime_ns)
            _join(tables, made, _add_places(places, shipment, to_realtime_ns))
            texts.update(made.texts)
            facts.append(_facts(job, shipment, is_over, now_ns + to_realtime_ns))
            losses += self._losses(job, shipment, now_ns + to_realtime_ns)
            _forget_ended(shipment)
        if len(tables.get("steps", ())) > _MOST_STEPS:
            beyond = len(tables["steps"]) - _MOST_STEPS
            del tables["steps"][_MOST_STEPS:]
            losses.append(_loss(jobs[0][0].name, "steps beyond a batch", beyond, clock.realtime_ns))
        for place in places:
            place["gpu_name"] = self._models.get(f"gpu{place['gpu']}", "")[:200]
        self._take_devices(places, tables, to_realtime_ns)
        tables["names"] = self._untold(texts, now_ns)
        self._put(places, facts, losses, tables, governor, now_ns + to_realtime_ns)
        self._write_unsent([job.name for job, _ in jobs], now_ns + to_realtime_ns)

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
            "events": self._take_events(realtime_ns - time.monotonic_ns()),
            "facts": {
                "cpu_ratio": round(max(0.0, governor.cpu_ratio()), 6),
                "rss_bytes": governor.latest.rss_bytes,
                "spool_bytes": self.outbox.size_bytes,
                "batches_lost": lost.batches,
                "rows_lost": lost.rows,
                "gpus": [model[:200] for _, model in sorted(self._models.items())][:1024],
                **self._checked(),
            },
        }
        rows = sum(map(len, tables.values()))
        try:
            self.outbox.put(self._epoch, self._sequence, rows, seal(header, tables))
        except OSError as error:
            self._note(f"outbox: {error.strerror or error}")
        self.sender.wake()

    def _checked(self) -> dict[str, object]:
        """What the doctor says is sent when it was asked anew; the collector keeps the latest."""
        found = self._checkup.take()
        return {} if found is None else {"doctor": found}

    def _take_devices(
        self,
        places: list[dict[str, object]],
        tables: dict[str, list[list[Value]]],
        to_realtime_ns: int,
    ) -> None:
        """A GPU's counters are those of the rank that has it; the rest are the node's own."""
        owners = {
            place["gpu"]: number for number, place in enumerate(places) if place["rank"] != -1
        }
        node = len(places)
        rows = tables.setdefault("counters", [])
        throttled: dict[tuple[int, int, int], float] = {}
        for counter, start_ns, count, mean, least, most in self._device_windows:
            gpu = gpu_number(counter.device)
            suffix, scale = _UNITS.get(counter.unit, ("", 1.0))
            name = f"{'gpu' if gpu >= 0 else counter.device}.{counter.name}{suffix}"
            when_ns = (start_ns + to_realtime_ns) // WINDOW_NS * WINDOW_NS
            place = owners.get(gpu, node) if gpu >= 0 else node
            value = mean * scale
            rows.append(
                [
                    place,
                    gpu,
                    when_ns,
                    name,
                    count,
                    value * count,
                    least * scale,
                    most * scale,
                    value,
                ]
            )
            if counter.name in _THROTTLES:
                throttled[place, gpu, when_ns] = throttled.get((place, gpu, when_ns), 0.0) + value
        for (place, gpu, when_ns), ratio in throttled.items():
            rows.append([place, gpu, when_ns, "gpu.throttle_ratio", 1, ratio, ratio, ratio, ratio])
        if any(row[0] == node for row in rows):
            places.append({"job": "", "role": "node"})
        self._device_windows = []

    def _take_events(self, to_realtime_ns: int) -> list[dict[str, object]]:
        events = [
            {
                "time_ns": when + to_realtime_ns,
                "device": event.device[:200],
                "name": event.name[:200],
                "value": event.value,
                "text": event.text[:200],
            }
            for when, event in self._device_events
        ]
        self._device_events = []
        return events

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
            "records dropped by probes": job.ended_dropped
            + sum(process.dropped for process in job.processes.values()),
            "rows dropped by the recorder": recorder.rows_dropped + recorder.windows.rows_dropped,
            "intervals beyond the agent's memory": sum(
                one.parts.left_out for one in shipment.processes.values()
            ),
        }
        found = []
        for what, count in counts.items():
            new = count - self._counted.get((job.name, what), 0)
            self._counted[job.name, what] = count
            if new > 0:
                found.append(_loss(job.name, what, new, time_ns))
        last_ns = self._left_by_a_killed.pop(job.name, None)
        if last_ns is not None:
            seconds = max(1, min(3600, (time_ns - last_ns) // 10**9))
            found.append(_loss(job.name, "seconds that a killed agent had", seconds, time_ns))
        return found

    def _unsent(self) -> dict[str, int]:
        """Jobs of an agent that was killed, with the time of its last batch."""
        try:
            content = json.loads((self._target.folder / _UNSENT).read_text())
            return {str(job): int(when) for job, when in content.items()}
        except (OSError, ValueError, AttributeError, TypeError):
            return {}

    def _write_unsent(self, jobs: Sequence[str], time_ns: int) -> None:
        with contextlib.suppress(OSError):
            path: Path = self._target.folder / _UNSENT
            path.write_text(json.dumps(dict.fromkeys(jobs, time_ns)))

    def _note(self, problem: str) -> None:
        if len(self.problems) < 32 or problem in self.problems:
            self.problems[problem] = self.problems.get(problem, 0) + 1


def _add_places(
    places: list[dict[str, object]], shipment: JobShipment, to_realtime_ns: int
) -> dict[int, int]:
    """A place for each process; returns by index which."""
    chosen = {}
    for index, one in shipment.processes.items():
        chosen[index] = len(places)
        places.append(_place(shipment.job.name, one, shipment.has_ranks, to_realtime_ns))
    return chosen


def _place(
    job: str, one: ProcessShipment, has_ranks: bool, to_realtime_ns: int
) -> dict[str, object]:
    process, identity = one.process, one.process.identity
    rank, role = identity.get("rank"), str(identity.get("role", "main"))
    if not isinstance(rank, int):
        rank = 0 if role == "main" and not has_ranks else -1
        role = "launcher" if role == "main" and has_ranks else role
    local_rank = identity.get("local_rank")
    return {
        "job": job,
        "attempt": _number(identity.get("attempt")),
        "rank": rank,
        "process": process.index,
        "role": role[:200],
        "pid": process.pid,
        "gpu": local_rank if isinstance(local_rank, int) else -1,
        "python": str(identity.get("python", ""))[:200],
        "started_ns": process.since_ns + to_realtime_ns,
        "ended_ns": one.ended_ns + to_realtime_ns if one.ended_ns else 0,
        "how": one.how,
        "step": one.last_step,
        "last_step_ns": one.last_step_ns + to_realtime_ns if one.last_step_ns else 0,
        "finished": one.finished,
        "stack": one.stack[:200],
        "read": process.read,
        "dropped": one.dropped,
    }


def _facts(job: Job, shipment: JobShipment, is_over: bool, realtime_ns: int) -> dict[str, object]:
    manifest = job.recorder.manifest
    identities = [one.process.identity for one in shipment.processes.values()]
    ranks = [one for one in identities if isinstance(one.get("rank"), int)] or identities
    first: Mapping[str, object] = ranks[0] if ranks else {}
    finish = job.finish
    exit_code = (finish.exit_code if finish else None) or 0
    signal = (finish.signal if finish else None) or 0
    state = "running" if not is_over else "failed" if exit_code or signal else "finished"
    known = ("python", "version", "container", "role", "launcher")
    return {
        "job": job.name,
        "attempt": max((_number(one.get("attempt")) for one in identities), default=0),
        "started_ns": manifest.created_ns,
        "ended_ns": realtime_ns if is_over else 0,
        "state": state,
        "exit_code": exit_code,
        "signal": signal,
        "launcher": str(first.get("launcher") or "")[:200],
        "world_size": _number(first.get("world_size")),
        "command": " ".join(manifest.command)[:4000],
        "facts": {key: first[key] for key in known if first.get(key) is not None},
    }


def _join(tables: dict[str, list[list[Value]]], made: Batchful, places: Mapping[int, int]) -> None:
    for name, rows in made.tables().items():
        kept = tables.setdefault(name, [])
        for row in rows:
            row[0] = places[int(row[0])]
            kept.append(row)


def _forget_ended(shipment: JobShipment) -> None:
    for index in [index for index, one in shipment.processes.items() if one.ended_ns]:
        del shipment.processes[index]


def gpu_number(device: str) -> int:
    """-1 for what is no GPU."""
    rest = device.removeprefix("gpu")
    return int(rest) if rest != device and rest.isdigit() and len(rest) < 6 else -1


def _loss(job: str, what: str, count: int, time_ns: int) -> dict[str, object]:
    return {"job": job, "what": what, "count": count, "time_ns": time_ns}


def _number(value: object) -> int:
    return value if isinstance(value, int) and 0 <= value < 1 << 31 else 0
