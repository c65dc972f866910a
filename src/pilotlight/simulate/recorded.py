"""Writes a simulated job as a recording, as an agent would have left it on one node."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import ArrayLike

from pilotlight import __version__
from pilotlight.insights.name_signs import COMPILES, LOADS, SAVES
from pilotlight.recording.chunk import ChunkWriter
from pilotlight.recording.columns import DTYPES
from pilotlight.recording.gpu_windows import WINDOW_MARK
from pilotlight.recording.manifest import AgentFacts, ClockPair, Manifest, write_manifest
from pilotlight.recording.processes import ProcessEnd, ProcessStart, append_event
from pilotlight.recording.rows import pack_rows
from pilotlight.recording.schema import (
    TABLES,
    ActivityKind,
    CollectiveFlag,
    MarkKind,
    SpanKind,
    TrackKind,
)
from pilotlight.simulate.job import JobShape
from pilotlight.simulate.operation import Stays, operations_of
from pilotlight.simulate.tape import HOST
from pilotlight.trace.detail import Message
from pilotlight.trace.trace import NONE, Kind, Spans, Trace

LABEL = "SIMULATED"
# Readers take 0 for a time that nobody told.
BEGIN_NS = 1_000_000_000
FIRST_PID = 1000
ROWS_AT_ONCE = 1 << 20
_RECORDS_ON, _ENDED = 1, -2

_ACTIVITIES = {
    Kind.KERNEL: ActivityKind.KERNEL,
    Kind.MEMCPY: ActivityKind.MEMCPY,
    Kind.MEMSET: ActivityKind.MEMSET,
}
_CALLS = {
    "cudaLaunchKernel": ActivityKind.KERNEL,
    "cudaLaunchKernelExC": ActivityKind.KERNEL,
    "cudaMemcpyAsync": ActivityKind.MEMCPY,
    "cudaStreamSynchronize": ActivityKind.SYNCHRONIZATION,
    "cudaMalloc": ActivityKind.ALLOCATION,
    "cudaFree": ActivityKind.FREE,
}
_OPTIMIZER = "Optimizer.step"


def write_recording(name: str, shape: JobShape, traces: Sequence[Trace], folder: Path) -> None:
    """All ranks in one recording; `folder` is empty or not there yet."""
    folder.mkdir(parents=True, exist_ok=True)
    job = f"{LABEL}-{name}"
    now_ns = time.time_ns()
    stays = Stays(traces)
    writer = ChunkWriter(folder / "detail" / "000001")
    for trace in traces:
        start = _start(job, shape, trace.rank, now_ns)
        rank = _Rank(trace, start.pid, stays)
        append_event(folder, start)
        rank.write(writer)
        writer.commit({})
        append_event(folder, ProcessEnd(trace.rank, "exit", rank.end_ns))
    writer.close()
    manifest = Manifest(
        job=job,
        node=LABEL,
        boot_id=LABEL,
        created_ns=now_ns,
        command=("pilotlight", "simulate", name),
        agent=AgentFacts(0, __version__),
        clocks=(ClockPair(BEGIN_NS, now_ns),),
        budget_bytes=0,
        state="finished",
        detail_bytes=writer.committed_bytes,
        last_chunk=1,
    )
    write_manifest(folder, manifest)


def _start(job: str, shape: JobShape, rank: int, now_ns: int) -> ProcessStart:
    node, place = divmod(rank, shape.ranks_per_node)
    identity: dict[str, object] = {
        "job": job,
        "rank": rank,
        "local_rank": place,
        "world_size": shape.ranks,
        "node": f"{LABEL}-{node}",
        "launcher": "pilotlight simulate",
        "command": ["pilotlight", "simulate"],
        "facts": {"simulated": True, "gpu": shape.gpu, "seed": shape.seed},
    }
    segment = f"{LABEL}-{rank}"
    return ProcessStart(rank, FIRST_PID + rank, 0, segment, BEGIN_NS, now_ns, (0, 0), identity)


class _Rank:
    """The rows of one process; its number is its rank."""

    def __init__(self, trace: Trace, pid: int, stays: Stays) -> None:
        self.trace = trace
        self.pid = pid
        self.stays = stays
        self.names = {"": 0}
        self.end_ns = BEGIN_NS + int(trace.spans.end_ns.max())
        self._name_ids = np.array([self._name(name) for name in trace.names], np.int64)

    def write(self, writer: ChunkWriter) -> None:
        self._spans(writer)
        self._device(writer)
        self._launches(writer)
        self._collectives(writer)
        self._steps_and_counters(writer)
        on, off = (BEGIN_NS, _RECORDS_ON), (self.end_ns, _ENDED)
        mark = self._name(WINDOW_MARK)
        rows = [(self.trace.rank, self.pid, mark, MarkKind.MARK, *when) for when in (on, off)]
        writer.append("marks", len(rows), pack_rows("marks", rows))
        thread = (self.trace.rank, self.pid, self._name(self.trace.lanes[HOST].name))
        writer.append("threads", 1, pack_rows("threads", [thread]))
        names = [(self.trace.rank, number, text) for text, number in self.names.items() if number]
        writer.append("names", len(names), pack_rows("names", names))

    def _name(self, text: str) -> int:
        return self.names.setdefault(text, len(self.names))

    def _spans(self, writer: ChunkWriter) -> None:
        """What the adapter of PyTorch tells by kinds and phases is told by them here too."""
        how = [self._kind_and_name(name) for name in self.trace.names]
        kinds, names = np.array(how, np.int64).T
        spans = self.trace.of_kind(Kind.OPERATOR, Kind.GC)
        is_gc = spans.kind == Kind.GC
        self._append(
            writer,
            "spans",
            len(spans),
            name=np.where(is_gc, 0, names[spans.name]),
            kind=np.where(is_gc, SpanKind.GC, kinds[spans.name]),
            **self._times(spans),
        )

    def _kind_and_name(self, name: str) -> tuple[int, int]:
        if LOADS.search(name):
            return SpanKind.PHASE, self._name("data")
        if SAVES.search(name) and "synchronize" not in name:
            return SpanKind.PHASE, self._name("checkpoint")
        if name.startswith(_OPTIMIZER):
            return SpanKind.PHASE, self._name("optimizer")
        if COMPILES.search(name):
            return SpanKind.COMPILE, self._name(name)
        return SpanKind.OPERATOR, self._name(name)

    def _device(self, writer: ChunkWriter) -> None:
        trace = self.trace
        tracks = [
            (trace.rank, number, self._name(f"stream {lane.thread}"), TrackKind.STREAM,
             int(lane.process), int(lane.thread))
            for number, lane in enumerate(trace.lanes) if number != HOST
        ]  # fmt: skip
        writer.append("tracks", len(tracks), pack_rows("tracks", tracks))
        spans = trace.of_kind(*_ACTIVITIES)
        kinds = np.zeros(256, np.int64)
        kinds[list(_ACTIVITIES)] = list(_ACTIVITIES.values())
        self._append(
            writer,
            "activities",
            len(spans),
            name=self._name_ids[spans.name],
            track=spans.lane,
            kind=kinds[spans.kind],
            bytes=np.where(spans.bytes == NONE, 0, spans.bytes),
            correlation=np.where(spans.correlation == NONE, 0, spans.correlation),
            **self._times(spans),
        )

    def _launches(self, writer: ChunkWriter) -> None:
        calls = self.trace.of_kind(Kind.RUNTIME)
        kinds = np.array([_CALLS.get(name, 0) for name in self.trace.names], np.int64)
        self._append(
            writer,
            "launches",
            len(calls),
            name=self._name_ids[calls.name],
            kind=kinds[calls.name],
            correlation=np.where(calls.correlation == NONE, 0, calls.correlation),
            **self._times(calls),
        )

    def _collectives(self, writer: ChunkWriter) -> None:
        spans, kinds = self.trace.spans, self.trace.detail.messages.kinds
        found = operations_of(self.trace)
        if not found:
            return
        rows = np.array([row for _, row, _ in found])
        messages = [kinds[kind] for _, _, kind in found]
        mine = spans.take(rows)
        stays_ns = mine.duration_ns.tolist()
        waits = [
            self.stays.wait_ns(operation, stay_ns)
            for (operation, _, _), stay_ns in zip(found, stays_ns, strict=True)
        ]
        self._append(
            writer,
            "collectives",
            len(found),
            name=[self._name(self._operation(message)) for message in messages],
            group=[self._name(message.group) for message in messages],
            rank=[self.stays.places[message.group][self.trace.rank] for message in messages],
            world_size=[message.size for message in messages],
            flags=[0 if wait is None else CollectiveFlag.WAIT_KNOWN for wait in waits],
            wait_ns=[wait or 0 for wait in waits],
            bytes=[message.bytes for message in messages],
            sequence=[sequence for (_, sequence), _, _ in found],
            correlation=mine.correlation,
            **self._times(mine),
        )

    def _operation(self, message: Message) -> str:
        """Transfers name their partner as NCCL's plugin does, by its place in the group."""
        if message.partner == NONE:
            return message.operation
        place = self.stays.places[message.group][message.partner]
        return f"Send to {place}" if message.operation == "send" else f"Recv from {place}"

    def _steps_and_counters(self, writer: ChunkWriter) -> None:
        steps, counters = self.trace.steps, self.trace.counters
        self._append(
            writer,
            "steps",
            len(steps),
            step=steps.number,
            start_ns=BEGIN_NS + steps.start_ns,
            duration_ns=steps.duration_ns,
        )
        self._append(
            writer,
            "counters",
            len(counters.time_ns),
            name=self._name_ids[counters.name],
            time_ns=BEGIN_NS + counters.time_ns,
            value=counters.value,
        )

    def _times(self, spans: Spans) -> dict[str, ArrayLike]:
        return {"start_ns": BEGIN_NS + spans.start_ns, "duration_ns": spans.duration_ns}

    def _append(self, writer: ChunkWriter, table: str, rows: int, **values: ArrayLike) -> None:
        """Columns that are not given are 0, but for the process and its only thread."""
        given = {"process": self.trace.rank, "thread": self.pid, **values}
        columns = {
            column.name: np.broadcast_to(
                np.asarray(given.get(column.name, 0), DTYPES[column.kind]), rows
            )
            for column in TABLES[table].columns
        }
        for begin in range(0, rows, ROWS_AT_ONCE):
            end = min(begin + ROWS_AT_ONCE, rows)
            pieces = {name: column[begin:end].tobytes() for name, column in columns.items()}
            writer.append(table, end - begin, pieces)
