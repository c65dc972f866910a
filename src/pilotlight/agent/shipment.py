"""What one job has to send: sums, steps and definitions since the last batch."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from pilotlight.agent.cost import Meter
from pilotlight.agent.counters.cgroup import group_of
from pilotlight.agent.job import Job
from pilotlight.agent.launched import OTHER, Launched
from pilotlight.agent.parts import StepParts
from pilotlight.agent.process import Process
from pilotlight.agent.recorder import Taken
from pilotlight.agent.stalled import Ask, Quiet, Waits
from pilotlight.agent.sums import merge_sums
from pilotlight.agent.tables import Columns, Tables, numbers
from pilotlight.recording.schema import WINDOW_NS, CollectiveFlag, WindowKind
from pilotlight.ship.definitions import Definitions, text_id, values
from pilotlight.ship.envelope import Value
from pilotlight.ship.frame import split_line
from pilotlight.ship.wire import LAUNCHED, NAME, STACK

MOST_NAMES = 64
"""Of a kind, a process and a window; the time of the rest is added up as `(other)`."""

_BYTES_WAITING = 8 << 20
_ENDS = CollectiveFlag.ASYNCHRONOUS | CollectiveFlag.WAIT_KNOWN
_COSTS_AWAITED = 30
# The probe's own thread waits all the time.
_OWN = "(probe/errands.py)"

Rows = list[list[Value]]


@dataclass
class _Traffic:
    count: int = 0
    total_ns: int = 0
    wait_ns: int = 0
    bytes: int = 0
    max_ns: int = 0
    size: int = 0


@dataclass
class _Gauge:
    count: int = 0
    total: float = 0.0
    least: float = float("inf")
    most: float = float("-inf")
    last: float = 0.0

    def add(self, value: float) -> None:
        self.count += 1
        self.total += value
        self.least = min(self.least, value)
        self.most = max(self.most, value)
        self.last = value


class ProcessShipment:
    """Of one process."""

    def __init__(self, process: Process) -> None:
        self.process = process
        self.group = group_of(process.pid)
        self.definitions = Definitions()
        self.parts = StepParts(self.definitions)
        self.launched = Launched()
        self.traffic: dict[tuple[int, int, int], _Traffic] = {}
        self.gauges: dict[tuple[int, int], _Gauge] = {}
        self.last_step = -1
        self.last_step_ns = 0
        self.finished: dict[str, int] = {}
        self._quiet = Quiet(process.pid)
        self.stack = ""
        self.ended_ns = 0
        self.how = ""
        self.exit_code: int | None = None
        self._dropped = 0
        self._meter = Meter()
        self._is_cost_known = False
        self._costs_told = 0

    def cost(self) -> dict[str, object]:
        """What it costs its process now; empty after its end."""
        if self.ended_ns:
            return {}
        gpu: Any = self.process.reader.live()["gpu"]
        found = self._meter.read(gpu)
        self._is_cost_known = self._is_cost_known or "sampler_ratio" in found
        self._costs_told += 1
        return found

    @property
    def is_cost_news(self) -> bool:
        """Of a new process it is told as soon as it is known, and not only once a minute."""
        return not self._is_cost_known and self._costs_told < _COSTS_AWAITED

    @property
    def dropped(self) -> int:
        return self._dropped if self.ended_ns else self.process.dropped

    @property
    def waits(self) -> Waits:
        return self._quiet.waits

    def ask_if_quiet(self, now_ns: int, ask: Ask) -> None:
        if not self.ended_ns:
            self._quiet.look(self.last_step_ns, now_ns, ask)

    def end(self, now_ns: int) -> None:
        """Its segment is let go after this."""
        self._dropped = self.process.dropped
        facts = self.process.end(now_ns)
        self.how, self.exit_code = facts.how, facts.exit_code
        self.ended_ns = now_ns
        self.launched.close()
        self.parts.close()

    def add(self, taken: Taken) -> None:
        self.definitions.learn(taken.detail)
        self.definitions.learn(taken.windows)
        self.parts.add(taken.detail)
        if "activities" in taken.detail:
            self.launched.add(taken.detail["activities"][1])
        if "sampler" in taken.detail:
            sampler = taken.detail["sampler"][1]
            self._meter.add(
                numbers("i64", sampler["time_ns"]),
                numbers("i64", sampler["cpu_ns"]),
                numbers("u32", sampler["passes"]),
            )
        if "collectives" in taken.detail:
            self._collectives(taken.detail["collectives"][1])
        if "counters" in taken.detail:
            columns = taken.detail["counters"][1]
            for name, time_ns, value in zip(
                numbers("u32", columns["name"]),
                numbers("i64", columns["time_ns"]),
                values("f64", columns["value"]),
                strict=True,
            ):
                key = (name, time_ns // WINDOW_NS * WINDOW_NS)
                self.gauges.setdefault(key, _Gauge()).add(value)

    def _collectives(self, columns: Columns) -> None:
        for flags, operation, group, ranks, start_ns, duration_ns, wait_ns, size, sequence in zip(
            columns["flags"],
            numbers("u32", columns["name"]),
            numbers("u32", columns["group"]),
            numbers("u32", columns["world_size"]),
            numbers("i64", columns["start_ns"]),
            numbers("i64", columns["duration_ns"]),
            numbers("i64", columns["wait_ns"]),
            numbers("i64", columns["bytes"]),
            numbers("u64", columns["sequence"]),
            strict=True,
        ):
            key = (operation, group, start_ns // WINDOW_NS * WINDOW_NS)
            sums = self.traffic.setdefault(key, _Traffic())
            sums.count += 1
            sums.bytes += max(0, size)
            if flags & _ENDS != CollectiveFlag.ASYNCHRONOUS:
                sums.total_ns += duration_ns
                sums.wait_ns += wait_ns
                sums.max_ns = max(sums.max_ns, duration_ns)
            sums.size = ranks
            name = self.definitions.name(group)
            if len(self.finished) < 64 or name in self.finished:
                self.finished[name] = max(self.finished.get(name, 0), sequence)


def _attempt(identity: Mapping[str, object]) -> int:
    attempt = identity.get("attempt")
    return attempt if isinstance(attempt, int) else 0


@dataclass
class JobShipment:
    """Of one job on this node. `identity` is that of a rank, and outlives it: the last batch of a
    job has no processes."""

    job: Job
    identity: Mapping[str, object] = field(default_factory=dict)
    processes: dict[int, ProcessShipment] = field(default_factory=dict)
    waiting: list[Tables] = field(default_factory=list)
    waiting_bytes: int = 0
    has_ranks: bool = False
    is_reckoned: bool = False
    ended_left_out: int = 0
    exit_code: int = 0
    _told_by: tuple[bool, int] = (False, -1)

    def ended(self, one: ProcessShipment) -> None:
        """How the job went where nobody waits for its end: its first process says, else a rank of
        the newest attempt; the negative number of a signal as in `subprocess`."""
        role = one.process.identity.get("role", "main")
        if one.exit_code is None or role not in ("main", "rank"):
            return
        by = (role == "main", _attempt(one.process.identity))
        if by > self._told_by or (by == self._told_by and not self.exit_code):
            self._told_by, self.exit_code = by, one.exit_code

    @property
    def left_out(self) -> int:
        """Intervals of all its processes, also of those that have ended."""
        return self.ended_left_out + sum(one.parts.left_out for one in self.processes.values())

    def add(self, taken: Sequence[tuple[Process, Taken]]) -> None:
        for process, handed in taken:
            one = self.processes.get(process.index)
            if one is None:
                one = self.processes[process.index] = ProcessShipment(process)
            one.add(handed)
            self.has_ranks = self.has_ranks or isinstance(process.identity.get("rank"), int)
            sums = {
                name: table
                for name, table in handed.windows.items()
                if name in ("windows", "histograms")
            }
            if sums:
                self.waiting.append(sums)
                self.waiting_bytes += sum(
                    len(data) for _, columns in sums.values() for data in columns.values()
                )
        if self.waiting_bytes > _BYTES_WAITING:
            self.waiting = merge_sums(self.waiting)
            self.waiting_bytes = 0

    def take(self, until_ns: int, to_realtime_ns: int) -> Batchful:
        """Everything since the last time; times on the wall clock."""
        made = Batchful()
        self._identify()
        for index, one in self.processes.items():
            for row in one.parts.take(until_ns):
                one.last_step = max(one.last_step, row[0])
                one.last_step_ns = max(one.last_step_ns, row[1] + row[2])
                made.steps.append([index, row[0], row[1] + to_realtime_ns, *row[2:]])
            self.is_reckoned = self.is_reckoned or one.parts.is_reckoned
            self._take_traffic(made, index, one, to_realtime_ns)
            launched = one.launched.take(until_ns, one.definitions, MOST_NAMES)
            for time_ns, kind, text, sums in launched:
                made.windows.append(
                    [
                        index,
                        _aligned(time_ns + to_realtime_ns),
                        LAUNCHED,
                        kind,
                        made.name(STACK, text),
                        sums.count,
                        sums.total_ns,
                        0,
                        sums.longest_ns,
                    ]
                )
        for part in merge_sums(self.waiting):
            if "windows" in part:
                self._take_windows(made, part["windows"][1], to_realtime_ns)
            if "histograms" in part:
                self._take_histograms(made, part["histograms"][1], to_realtime_ns)
        self.waiting, self.waiting_bytes = [], 0
        return made

    def _identify(self) -> None:
        """By a rank of the newest attempt; a launcher that outlives its ranks does not tell of
        them."""
        known = [*(one.process.identity for one in self.processes.values()), self.identity]
        ranks = [one for one in known if isinstance(one.get("rank"), int)]
        self.identity = max(ranks or known, key=_attempt)

    def _take_traffic(
        self, made: Batchful, index: int, one: ProcessShipment, to_realtime_ns: int
    ) -> None:
        for (operation, group, time_ns), sums in one.traffic.items():
            made.collectives.append(
                [
                    index,
                    _aligned(time_ns + to_realtime_ns),
                    one.definitions.name(operation)[:200],
                    one.definitions.name(group)[:200],
                    sums.size,
                    sums.count,
                    sums.total_ns,
                    sums.wait_ns,
                    sums.bytes,
                    sums.max_ns,
                ]
            )
        one.traffic.clear()
        for (name, time_ns), gauge in one.gauges.items():
            made.counters.append(
                [
                    index,
                    -1,
                    _aligned(time_ns + to_realtime_ns),
                    one.definitions.name(name)[:200],
                    gauge.count,
                    gauge.total,
                    gauge.least,
                    gauge.most,
                    gauge.last,
                ]
            )
        one.gauges.clear()

    def _take_windows(self, made: Batchful, columns: Columns, to_realtime_ns: int) -> None:
        """Only what took most time has a name of its own: a batch stays small for any job."""
        groups: dict[tuple[int, int, int], list[tuple[int, ...]]] = {}
        for process, start_ns, kind, *rest in zip(
            numbers("u32", columns["process"]),
            numbers("i64", columns["start_ns"]),
            columns["kind"],
            columns["state"],
            numbers("u32", columns["id"]),
            numbers("u64", columns["count"]),
            numbers("i64", columns["total_ns"]),
            numbers("i64", columns["min_ns"]),
            numbers("i64", columns["max_ns"]),
            strict=True,
        ):
            if kind != WindowKind.STEP:
                groups.setdefault((process, start_ns, kind), []).append(tuple(rest))
        for (process, start_ns, kind), rows in groups.items():
            one = self.processes.get(process)
            if one is None:
                continue
            rows.sort(key=lambda row: -row[3])
            texts = _texts_of(kind, one.definitions)
            if kind == WindowKind.SAMPLE:
                frames = (texts(row[1]).rsplit("\n", 1)[-1] for row in rows)
                one.stack = next((frame for frame in frames if not _is_own(frame)), "")
            time_ns = _aligned(start_ns + to_realtime_ns)
            for state, id, count, total_ns, min_ns, max_ns in rows[:MOST_NAMES]:
                text = texts(id)
                if kind == WindowKind.SAMPLE and _is_own(text.rsplit("\n", 1)[-1]):
                    continue
                name = made.name(STACK if kind == WindowKind.SAMPLE else NAME, text)
                made.windows.append(
                    [process, time_ns, kind, state, name, count, total_ns, min_ns, max_ns]
                )
            for state in sorted({row[0] for row in rows[MOST_NAMES:]}):
                rest_rows = [row for row in rows[MOST_NAMES:] if row[0] == state]
                made.windows.append(
                    [
                        process,
                        time_ns,
                        kind,
                        state,
                        made.name(STACK if kind == WindowKind.SAMPLE else NAME, OTHER),
                        sum(row[2] for row in rest_rows),
                        sum(row[3] for row in rest_rows),
                        min(row[4] for row in rest_rows),
                        max(row[5] for row in rest_rows),
                    ]
                )

    def _take_histograms(self, made: Batchful, columns: Columns, to_realtime_ns: int) -> None:
        """Over all processes of the job: quantiles are asked for by name, not by rank."""
        named = {row[4] for row in made.windows}
        counts: dict[tuple[int, int, int, int], int] = {}
        owner: dict[tuple[int, int, int, int], int] = {}
        for process, start_ns, kind, id, bucket, count in zip(
            numbers("u32", columns["process"]),
            numbers("i64", columns["start_ns"]),
            columns["kind"],
            numbers("u32", columns["id"]),
            numbers("u16", columns["bucket"]),
            numbers("u64", columns["count"]),
            strict=True,
        ):
            one = self.processes.get(process)
            if one is None or kind in (WindowKind.STEP, WindowKind.SAMPLE):
                continue
            name = text_id(_texts_of(kind, one.definitions)(id))
            if name not in named:
                continue
            key = (start_ns, kind, name, bucket)
            counts[key] = counts.get(key, 0) + count
            owner.setdefault(key, process)
        made.histograms += [
            [owner[key], _aligned(key[0] + to_realtime_ns), key[1], key[2], key[3], count]
            for key, count in counts.items()
        ]


@dataclass
class Batchful:
    """Rows of the tables of a batch; the first value of each is the process's index."""

    steps: Rows = field(default_factory=list)
    windows: Rows = field(default_factory=list)
    histograms: Rows = field(default_factory=list)
    collectives: Rows = field(default_factory=list)
    counters: Rows = field(default_factory=list)
    texts: dict[int, tuple[int, str]] = field(default_factory=dict)

    def name(self, kind: int, text: str) -> int:
        id = text_id(text)
        self.texts[id] = (kind, text)
        return id

    def tables(self) -> Mapping[str, Rows]:
        return {
            "steps": self.steps,
            "windows": self.windows,
            "histograms": self.histograms,
            "collectives": self.collectives,
            "counters": self.counters,
        }


def _aligned(time_ns: int) -> int:
    """Windows of all nodes begin at the same times, whatever their monotonic clocks say."""
    return time_ns // WINDOW_NS * WINDOW_NS


def _is_own(frame: str) -> bool:
    return split_line(frame)[0].endswith(_OWN)


def _texts_of(kind: int, definitions: Definitions) -> Callable[[int], str]:
    if kind == WindowKind.SAMPLE:
        return definitions.stack
    if kind == WindowKind.GC:
        return lambda id: f"generation {id}"
    return definitions.name
