"""All jobs of this agent: opened, taken over, kept within the budget, closed."""

from __future__ import annotations

import contextlib
import json
import os
import re
import time
from collections import Counter, deque
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from pilotlight.agent.clocks import Clocks
from pilotlight.agent.disk import DiskBudget
from pilotlight.agent.job import Ended, Job
from pilotlight.agent.memory import keep_in_memory
from pilotlight.agent.recorder import Recorder
from pilotlight.agent.settings import Settings
from pilotlight.errors import AgentError, FormatError, PilotlightError
from pilotlight.place import node_name
from pilotlight.recording.fields import read_object, take
from pilotlight.recording.manifest import (
    MANIFEST_FILE,
    AgentFacts,
    Manifest,
    read_manifest,
    write_manifest,
)
from pilotlight.recording.places import recordings_root

_REMEMBERED = 64


@dataclass(frozen=True)
class Closed:
    """A job that has ended, for those who ask about it afterwards."""

    name: str
    folder: Path
    ended: Sequence[Ended]


class Jobs:
    def __init__(self, settings: Settings, path: Path, clocks: Clocks, agent: AgentFacts) -> None:
        """`path` is where the open recordings are written down for the next agent."""
        self.budget = DiskBudget(settings.budget_bytes)
        self.open: dict[str, Job] = {}
        self.closed: deque[Closed] = deque(maxlen=_REMEMBERED)
        self.problems: Counter[str] = Counter()
        self.agent = agent
        self._settings = settings
        self._path = path
        self._clocks = clocks
        # Recordings of unattended jobs that have ended still count against the budget.
        self._kept: deque[Recorder] = deque()

    @property
    def share_bytes(self) -> int:
        """What one of the open jobs may have while all of them are equally busy."""
        return self.budget.limit_bytes // max(1, len(self.open))

    @property
    def disk_bytes(self) -> int:
        return sum(recorder.disk_bytes for recorder in self._recorders())

    def record(
        self,
        name: str,
        folder: Path | None,
        command: Sequence[str],
        now_ns: int,
        recordings: Path | None = None,
    ) -> Job:
        """The open job of that name, or a new one: in `folder`, else in a new one in `recordings`.

        AgentError: no folder can be made for it.
        """
        known = self.open.get(name)
        if known is not None:
            if folder is not None and folder != known.folder:
                raise AgentError(f"job {name} is being recorded already, in {known.folder}")
            return known
        if len(self.open) >= self._settings.most_jobs:
            raise AgentError(f"{len(self.open)} jobs are being recorded, which is all it can")
        place = _new_folder(name, folder, recordings)
        if self._settings.memory_folder is not None:
            keep_in_memory(place, self._settings.memory_folder)
        manifest = Manifest(
            job=name,
            node=node_name(),
            boot_id=_boot_id(),
            created_ns=time.time_ns(),
            command=tuple(command),
            agent=self.agent,
            clocks=self._clocks.pairs,
            budget_bytes=self.budget.budget_bytes,
        )
        try:
            write_manifest(place, manifest)
        except OSError as error:
            raise AgentError(f"{place / MANIFEST_FILE}: {error.strerror}") from None
        recorder = Recorder(place, manifest, self._make_room)
        # Now rather than with the first rows, whose ring would have to wait for it.
        recorder.begin_commit(now_ns, self.share_bytes)
        job = Job(name, recorder, {}, now_ns)
        self.open[name] = job
        self._write_down()
        return job

    def take_over(self, now_ns: int) -> None:
        """Opens again what a killed agent was recording."""
        for name, folder in _written_down(self._path):
            try:
                manifest = read_manifest(folder)
                if manifest.state == "recording" and manifest.boot_id == _boot_id():
                    self.open[name] = self._reopen(manifest, folder, now_ns)
            except (OSError, PilotlightError) as error:
                self.problems[f"{folder}: not taken over: {error}"] += 1
        self._write_down()

    def commit(self, job: Job, now_ns: int) -> None:
        """What the caller does after a commit of the job's rows: sums and budget."""
        job.recorder.write_windows(now_ns, self.budget.limit_bytes // 2)
        self.budget.enforce(self._recorders(), now_ns)
        for recorder in self._kept:
            if recorder.detail.chunks_dropped != recorder.manifest.lost.chunks_dropped:
                recorder.write_manifest(recorder.manifest.agent, recorder.manifest.clocks)

    def write_manifest(self, job: Job, agent: AgentFacts) -> None:
        before = job.recorder.manifest
        first_ns = self._clocks.pairs[0].monotonic_ns
        earlier = [pair for pair in before.clocks if pair.monotonic_ns < first_ns]
        clocks = (*earlier[-_REMEMBERED:], *self._clocks.pairs)
        agent = replace(
            agent,
            restarts=before.agent.restarts,
            cpu_ns=time.process_time_ns() - job.opened_cpu_ns,
            wall_ns=time.monotonic_ns() - job.opened_ns,
        )
        job.recorder.write_manifest(agent, clocks)

    def _keep(self, recorder: Recorder) -> None:
        """Detail that nobody counts any more would stay for good: the oldest job loses its own."""
        self._kept.append(recorder)
        if len(self._kept) > _REMEMBERED:
            oldest = self._kept.popleft()
            while oldest.drop_oldest():
                pass
            oldest.write_manifest(oldest.manifest.agent, oldest.manifest.clocks)

    def close(self, job: Job, agent: AgentFacts) -> None:
        """The job has ended, and all its processes are drained."""
        recorder = job.recorder
        recorder.close()
        outcome = job.outcome
        recorder.manifest = replace(
            recorder.manifest,
            state="finished",
            exit_code=outcome.exit_code if outcome else None,
            signal=outcome.signal if outcome else None,
        )
        self.write_manifest(job, agent)
        if job.finish is None:
            self._keep(recorder)
        for handle in job.runners.values():
            os.close(handle)
        del self.open[job.name]
        self.closed.append(Closed(job.name, job.folder, tuple(job.ended)))
        self._write_down()

    def suspend(self, job: Job, agent: AgentFacts) -> None:
        """This agent goes, the job does not: leaves everything ready for the next one."""
        job.recorder.suspend()
        self.write_manifest(job, agent)

    def _reopen(self, manifest: Manifest, folder: Path, now_ns: int) -> Job:
        restarts = (*manifest.agent.restarts, now_ns)
        manifest = replace(manifest, agent=replace(self.agent, restarts=restarts))
        recorder = Recorder(folder, manifest, self._make_room)
        return Job(manifest.job, recorder, recorder.take_over(), now_ns)

    def _recorders(self) -> list[Recorder]:
        return [*self._kept, *(job.recorder for job in self.open.values())]

    def _make_room(self) -> bool:
        return self.budget.make_room(self._recorders(), time.monotonic_ns())

    def _write_down(self) -> None:
        entries = [[job.name, str(job.folder)] for job in self.open.values()]
        beside = self._path.with_suffix(".new")
        with contextlib.suppress(OSError):
            if entries:
                beside.write_text(json.dumps({"jobs": entries}))
                beside.replace(self._path)
            else:
                self._path.unlink(missing_ok=True)


def _written_down(path: Path) -> list[tuple[str, Path]]:
    try:
        entries = take(read_object(path), "jobs", list)
        return [(str(name), Path(folder)) for name, folder in entries]
    except (OSError, FormatError, TypeError, ValueError):
        return []


def _new_folder(name: str, folder: Path | None, recordings: Path | None) -> Path:
    try:
        if folder is not None:
            folder.mkdir(parents=True, exist_ok=True)
            if any(folder.iterdir()):
                raise AgentError(f"{folder}: not empty; name a new folder")
            return folder
        root = recordings or recordings_root()
        root.mkdir(parents=True, exist_ok=True)
        plain = re.sub(r"[^\w.+-]", "_", name).strip(".") or "job"
        for number in range(1, 10_000):
            place = root / (plain if number == 1 else f"{plain}-{number}")
            with contextlib.suppress(FileExistsError):
                place.mkdir()
                return place
    except OSError as error:
        raise AgentError(f"{error.filename}: {error.strerror}") from None
    raise AgentError(f"{root}: too many recordings of job {name}")


def _boot_id() -> str:
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return ""
