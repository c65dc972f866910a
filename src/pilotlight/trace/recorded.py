"""Reads a recording of pilotlight: a trace for each process of the job that did something."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pilotlight.errors import FormatError
from pilotlight.recording.columns import Columns
from pilotlight.recording.gpu_windows import gpu_windows
from pilotlight.recording.processes import Process
from pilotlight.recording.recording import Recording
from pilotlight.recording.schema import ActivityKind
from pilotlight.trace.detail import Detail, Messages
from pilotlight.trace.problem import Problem
from pilotlight.trace.recorded_counters import with_node_counters
from pilotlight.trace.recorded_gpu import analysed_window
from pilotlight.trace.recorded_messages import Members, members_of, messages_of
from pilotlight.trace.trace import NONE, Counters, Kind, Lane, Spans, Steps, Trace

MANIFEST = "manifest.json"
_TABLES = ("spans", "activities", "launches", "collectives", "steps", "counters")
_GC_NAME = "Python GC"
# The phase "data" by the name that rules know such waits by.
_DATA, _LOADER_NAME = "data", "DataLoader wait"
_PHASE = 3

# spans.kind of docs/recording.md.
_SPAN_KINDS = {2: Kind.GC, 5: Kind.OPERATOR, 10: Kind.RUNTIME}
# A graph that was timed as a whole occupies the device like a kernel.
_ACTIVITY_KINDS = {
    int(ActivityKind.KERNEL): Kind.KERNEL,
    int(ActivityKind.GRAPH): Kind.KERNEL,
    int(ActivityKind.MEMCPY): Kind.MEMCPY,
    int(ActivityKind.MEMSET): Kind.MEMSET,
    int(ActivityKind.SYNCHRONIZATION): Kind.SYNC,
}
_STREAM = 1


def is_recording(path: Path) -> bool:
    return (path / MANIFEST).is_file()


def read_recording(path: Path) -> tuple[Trace, ...]:
    """Raises FormatError if the folder is no recording; its warnings become problems."""
    recording = Recording.open(path)
    tables = {name: recording.detail(name) for name in _TABLES}
    activities = tables["activities"]
    work = np.isin(activities["kind"], list(_ACTIVITY_KINDS))
    tables["activities"] = activities.where(work)
    gpu = {windows.process: windows for windows in gpu_windows(recording)}
    members = members_of(recording)
    notes: list[Problem] = []
    traces = []
    for process in recording.processes:
        index = process.start.process
        mine = {name: table.where(table["process"] == index) for name, table in tables.items()}
        if not any(table.rows for table in mine.values()):
            continue
        trace = _Process(recording, process, mine, members).trace(f"{path} process {index}")
        local_rank = process.start.identity.get("local_rank")
        trace = with_node_counters(
            recording, trace, local_rank if type(local_rank) is int else None
        )
        window = analysed_window(gpu.get(index))
        if window is not None:
            trace, note = _cut(trace, window, gpu[index].coverage_ratio)
            notes.append(Problem(str(path), f"process {index}", note))
        traces.append(trace)
    problems = (*(Problem(str(path), "", text) for text in recording.warnings), *notes)
    if not traces:
        raise FormatError(f"{path}: a recording without spans, steps, counters and activities")
    return (replace(traces[0], problems=problems), *traces[1:])


def _cut(trace: Trace, window: tuple[int, int], coverage_ratio: float) -> tuple[Trace, str]:
    """The spans and steps that lie in the window, and what to say about it."""
    begin, end = window
    spans, steps = trace.spans, trace.steps
    inside = (spans.start_ns >= begin) & (spans.end_ns <= end)
    seen = (steps.start_ns >= begin) & (steps.start_ns + steps.duration_ns <= end)
    columns = (steps.number, steps.start_ns, steps.duration_ns)
    shown = replace(
        trace, spans=spans.take(inside), steps=Steps(*(column[seen] for column in columns))
    )
    note = (
        f"device records were on {coverage_ratio:.0%} of the time; the longest such window is"
        f" shown, {(end - begin) / 1e6:.0f} ms with {int(seen.sum())} of {seen.size} steps"
    )
    return shown, note


class _Process:
    def __init__(
        self, recording: Recording, process: Process, tables: dict[str, Columns], members: Members
    ) -> None:
        self.recording = recording
        self.members = members
        self.process = process
        self.tables = tables
        self.lanes: dict[Lane, int] = {}
        self.texts = (*recording.names.texts, _GC_NAME, _LOADER_NAME)

    def trace(self, source: str) -> Trace:
        pieces = (self._spans(), self._activities(), self._launches(), self._collectives())
        columns = (np.concatenate(parts) for parts in zip(*pieces, strict=True))
        world_size = self.process.start.identity.get("world_size")
        rank = self.process.rank
        return Trace(
            source=source,
            format="recording",
            rank=NONE if rank is None else rank,
            world_size=world_size if type(world_size) is int else None,
            devices=(),
            names=self.texts,
            spans=Spans(*columns),
            lanes=tuple(self.lanes),
            counters=self._counters(),
            steps=self._steps(),
            detail=Detail(messages=self._messages()),
        )

    def _names(self, table: str, column: str = "name") -> NDArray[Any]:
        rows = self.tables[table]
        return self.recording.names.find(rows["process"], rows[column])

    def _spans(self) -> tuple[NDArray[Any], ...]:
        rows = self.tables["spans"]
        kind = _mapped(rows["kind"], _SPAN_KINDS, Kind.ANNOTATION)
        name = np.where(kind == Kind.GC, len(self.texts) - 2, self._names("spans"))
        data = [number for number, text in enumerate(self.texts) if text == _DATA]
        waits = (rows["kind"] == _PHASE) & np.isin(name, data)
        name = np.where(waits, len(self.texts) - 1, name)
        return self._columns("spans", kind, name, self._threads("spans"))

    def _activities(self) -> tuple[NDArray[Any], ...]:
        rows = self.tables["activities"]
        kind = _mapped(rows["kind"], _ACTIVITY_KINDS, Kind.OTHER)
        number_of: dict[int, int] = {}
        tracks = self.recording.detail("tracks")
        tracks = tracks.where(tracks["process"] == self.process.start.process)
        names = self.recording.names.find(tracks["process"], tracks["name"])
        for track, sort, device, stream, name in zip(
            *(tracks[key].tolist() for key in ("id", "kind", "device", "stream")),
            names.tolist(),
            strict=True,
        ):
            title = self.texts[name]
            thread = str(stream) if sort == _STREAM else title
            number_of[track] = self._lane(Lane(f"GPU {device}", thread, title))
        lane = np.zeros(len(rows["track"]), np.int64)
        for track in np.unique(rows["track"], return_index=True)[0].tolist():
            if track not in number_of:
                number_of[track] = self._lane(Lane("device", str(track)))
            lane[rows["track"] == track] = number_of[track]
        return self._columns("activities", kind, self._names("activities"), lane)

    def _launches(self) -> tuple[NDArray[Any], ...]:
        kind = np.full(len(self.tables["launches"]["name"]), Kind.RUNTIME)
        return self._columns("launches", kind, self._names("launches"), self._threads("launches"))

    def _collectives(self) -> tuple[NDArray[Any], ...]:
        """Each group of ranks has a lane: operations overlap what their thread does."""
        rows = self.tables["collectives"]
        kind = np.full(len(rows["name"]), Kind.ANNOTATION)
        groups, place = np.unique(self._names("collectives", "group"), return_inverse=True)
        numbers = [self._lane(Lane("collectives", self.texts[group])) for group in groups.tolist()]
        lane = np.array(numbers, np.int64)[place] if numbers else place
        return self._columns("collectives", kind, self._names("collectives"), lane)

    def _columns(
        self, table: str, kind: NDArray[Any], name: NDArray[Any], lane: NDArray[Any]
    ) -> tuple[NDArray[Any], ...]:
        rows = self.tables[table]
        none = np.full(len(name), NONE, np.int64)
        correlation, size = none, none
        if "correlation" in rows.arrays:
            given = rows["correlation"].astype(np.int64)
            correlation = np.where(given > 0, given, NONE)
        if "bytes" in rows.arrays:
            size = np.where(rows["bytes"] > 0, rows["bytes"], NONE)
        return (
            rows["start_ns"].astype(np.int64),
            rows["duration_ns"].astype(np.int64),
            kind.astype(np.uint8),
            name.astype(np.uint32),
            lane.astype(np.uint32),
            correlation,
            size.astype(np.int64),
        )

    def _threads(self, table: str) -> NDArray[Any]:
        """The lane of each row, by its thread."""
        threads, place = np.unique(self.tables[table]["thread"], return_inverse=True)
        start = self.process.start
        numbers = []
        for thread in threads.tolist():
            title = self.recording.thread_names.get((start.process, thread), "")
            numbers.append(self._lane(Lane(str(start.pid), str(thread), title)))
        return np.array(numbers, np.int64)[place] if numbers else place

    def _lane(self, lane: Lane) -> int:
        return self.lanes.setdefault(lane, len(self.lanes))

    def _messages(self) -> Messages:
        operations, groups = self._names("collectives"), self._names("collectives", "group")
        rows = self.tables["collectives"]
        return messages_of(rows, operations, groups, self.texts, self.members)

    def _counters(self) -> Counters:
        rows = self.tables["counters"]
        return Counters(
            rows["time_ns"].astype(np.int64),
            self._names("counters").astype(np.uint32),
            rows["value"].astype(np.float64),
        )

    def _steps(self) -> Steps:
        rows = self.tables["steps"]
        order = np.argsort(rows["start_ns"], kind="stable")
        columns = (rows[key][order].astype(np.int64) for key in ("step", "start_ns", "duration_ns"))
        return Steps(*columns)


def _mapped(values: NDArray[Any], kinds: dict[int, Kind], otherwise: Kind) -> NDArray[Any]:
    table: NDArray[Any] = np.full(256, otherwise, np.uint8)
    for value, kind in kinds.items():
        table[value] = kind
    found: NDArray[Any] = table[values]
    return found
