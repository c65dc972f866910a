"""The dependency graph of recorded ranks: host threads, streams, and collectives between ranks.

A call of the host waits for the call before it; a device span for the span before it on its
stream, for its launch call, and for a span on another stream at whose end it began; the optimizer
for all collectives before it, since it needs the gradients; a blocking call for the span that the
device finished last. Time that none of this explains stays with the node as its own, so that the
graph replays to what was recorded.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, replace
from enum import IntEnum

import numpy as np

from pilotlight.insights.breakdown import (
    COMPILES,
    MEMORY,
    SAVES,
    draining_calls,
    host_spans,
    loader_waits,
)
from pilotlight.insights.collective import Collectives, clock_offsets
from pilotlight.insights.job import Job
from pilotlight.insights.kernel import Category, category
from pilotlight.insights.rank import RankView
from pilotlight.model.graph import Graph, graph_of, replay, without_predecessors
from pilotlight.trace.interval import union
from pilotlight.trace.trace import NONE, Bool, Float64, Int64, Kind, Spans

# Streams hand over to each other by events within a few microseconds; those of ROCm take up to 20,
# which is told from chance where the wait was many times as long.
HANDOVER_NS = 10_000
SLOW_HANDOVER_NS = 50_000
HANDOVER_RATIO = 0.02
PARTS = ("loader", "gc", "compile", "checkpoint")


class Role(IntEnum):
    """What the time of a node is."""

    HOST = 0
    CALL = 1
    DELAY = 2
    KERNEL = 3
    COPY = 4
    COLLECTIVE = 5


@dataclass(frozen=True)
class RecordedGraph:
    """Columns by node. `name` is a number in `names`, `group` one in `groups` or -1; `parts_ns` has
    by PARTS how much of a host node the loader, the garbage collection and so on took.
    `is_blocking` nodes are calls that wait for the device."""

    graph: Graph
    role: Int64
    rank: Int64
    name: Int64
    names: tuple[str, ...]
    duration_ns: Float64
    parts_ns: dict[str, Float64]
    group: Int64
    groups: tuple[str, ...]
    is_blocking: Bool
    measured_ns: float

    def total_ns(self, duration_ns: Float64) -> float:
        """How long the whole takes with these durations."""
        return float(replay(self.graph, duration_ns[np.newaxis])[0].max())

    def waits(self, kind: str) -> Bool:
        """Nodes of calls that wait for the device: `sync` because the program asked for it,
        `allocation` because memory was taken or given back."""
        memory = np.array([MEMORY.match(name) is not None for name in self.names], np.bool_)
        chosen: Bool = self.is_blocking & (memory[self.name] == (kind == "allocation"))
        return chosen

    def without_waits(self, kind: str) -> RecordedGraph:
        """As if these calls had never waited for the device."""
        return replace(self, graph=without_predecessors(self.graph, self.waits(kind)))


def recorded_graph(job: Job) -> RecordedGraph:
    return _Build(job).finish()


class _Build:
    def __init__(self, job: Job) -> None:
        self.job = job
        self.preds: list[list[int]] = []
        self.rows: list[tuple[int, int, int, float]] = []
        self.parts: dict[str, list[tuple[Int64, Int64]]] = {name: [] for name in PARTS}
        self.names: dict[str, int] = {}
        self.blocking: list[int] = []
        # Ranks on other nodes have other clocks; those of one rank are all of one.
        offsets = np.zeros(len(job.ranks))
        if job.collectives is not None:
            offsets, _ = clock_offsets(job.collectives)
        self.offset_ns = {v.rank: int(o) for v, o in zip(job.ranks, offsets, strict=True)}
        begins = [int(v.trace.spans.start_ns.min()) - self.offset_ns[v.rank] for v in job.ranks]
        ends = [view.line.end_ns - self.offset_ns[view.rank] for view in job.ranks]
        self.begin_ns = min(begins)
        self.measured_ns = float(max(ends) - self.begin_ns)
        self.collective_of = _collective_rows(job.collectives)
        self.arrivals: dict[int, list[int]] = defaultdict(list)
        self.transfer_nodes: dict[int, int] = {}

    def node(self, role: Role, rank: int, name: str, length_ns: float, before: list[int]) -> int:
        number = self.names.setdefault(name, len(self.names))
        self.rows.append((role, rank, number, max(0.0, length_ns)))
        self.preds.append(before)
        return len(self.preds) - 1

    def finish(self) -> RecordedGraph:
        for view in self.job.ranks:
            _Rank(self, view).add()
        for row, node in self.transfer_nodes.items():
            self.preds[node] = self.arrivals[row]
        role, rank, name, duration = (np.array(column) for column in zip(*self.rows, strict=True))
        return RecordedGraph(
            graph_of(self.preds),
            role,
            rank,
            name,
            tuple(self.names),
            duration.astype(np.float64),
            {part: _spread(rows, len(duration)) for part, rows in self.parts.items()},
            *self._groups(len(duration)),
            np.isin(np.arange(len(duration)), self.blocking),
            self.measured_ns,
        )

    def _groups(self, count: int) -> tuple[Int64, tuple[str, ...]]:
        column = np.full(count, NONE, np.int64)
        matched = self.job.collectives
        if matched is None:
            return column, ()
        groups: dict[str, int] = {}
        for row, node in self.transfer_nodes.items():
            column[node] = groups.setdefault(matched.what[row].group, len(groups))
        return column, tuple(groups)

    def transfer(self, row: int, name: str, length_ns: float) -> int:
        """The part of a collective that all ranks share."""
        if row not in self.transfer_nodes:
            self.transfer_nodes[row] = self.node(Role.COLLECTIVE, NONE, name, length_ns, [])
        return self.transfer_nodes[row]


class _Rank:
    """Adds the nodes of one rank in the order of time."""

    def __init__(self, build: _Build, view: RankView) -> None:
        self.build = build
        self.view = view
        self.names = view.trace.names
        self.begin_ns = float(build.begin_ns + build.offset_ns[view.rank])
        self.host_nodes: list[tuple[int, int, int]] = []
        self.is_collective = [category(name) is Category.COMMUNICATION for name in self.names]
        self.is_optimizer = [category(name) is Category.OPTIMIZER for name in self.names]
        device, calls = view.device, view.calls
        # Plain lists: element by element they are several times faster than arrays.
        self.device = tuple(
            column.tolist()
            for column in (
                device.lane,
                device.start_ns,
                device.duration_ns,
                device.name,
                device.kind,
            )
        )
        self.calls = tuple(
            column.tolist()
            for column in (calls.lane, calls.start_ns, calls.duration_ns, calls.name)
        )
        self.launch = view.launch.tolist()
        self.last_on_thread: dict[int, tuple[int, float]] = {}
        self.last_on_stream: dict[int, tuple[int, float]] = {}
        self.last_collective: dict[int, tuple[int, float]] = {}
        self.launched: dict[int, tuple[int, int]] = {}

    def add(self) -> None:
        view = self.view
        device, calls = view.device, view.calls
        syncs = draining_calls(view.trace)
        events = [
            (int(calls.start_ns[i]), 0, int(i)) for i in np.unique(view.launch[view.launch != NONE])
        ]
        events += [(int(syncs.start_ns[i] + syncs.duration_ns[i]), 1, i) for i in range(len(syncs))]
        events += [(int(device.start_ns[i]), 2, i) for i in range(len(device))]
        events.sort()
        for _, what, i in events:
            if what == 0:
                self._call(i)
            elif what == 1:
                self._sync(syncs, i)
            else:
                self._span(i)
        self._host_parts()

    def _host_parts(self) -> None:
        """What the loader, the garbage collection and so on took of the host's own time."""
        if not self.host_nodes:
            return
        node, since, until = (np.array(column) for column in zip(*self.host_nodes, strict=True))
        collected = self.view.trace.of_kind(Kind.GC)
        gc = union(collected.start_ns, collected.end_ns)
        trace = self.view.trace
        for part, intervals in (
            ("loader", loader_waits(trace)),
            ("gc", gc),
            ("compile", host_spans(trace, COMPILES)),
            ("checkpoint", host_spans(trace, SAVES)),
        ):
            self.build.parts[part].append((node, intervals.within_ns(since, until)))

    def _arrive(self, thread: int, start_ns: float) -> int:
        """The host's own time until it makes a call."""
        before, since = self.last_on_thread.get(thread, (NONE, self.begin_ns))
        node = self.build.node(
            Role.HOST, self.view.rank, "host", start_ns - since, [] if before == NONE else [before]
        )
        self.host_nodes.append((node, int(since), int(max(since, start_ns))))
        return node

    def _call(self, i: int) -> None:
        thread, start, length, name_number = (column[i] for column in self.calls)
        arrival = self._arrive(thread, start)
        name = self.names[name_number]
        node = self.build.node(Role.CALL, self.view.rank, name, length, [arrival])
        self.launched[i] = (arrival, node)
        self.last_on_thread[thread] = (node, start + length)

    def _launch(self, call: int, start: float) -> tuple[float, int]:
        """A device may begin before the call that launched it has returned."""
        arrival, returned = self.launched[call]
        begin, length = self.calls[1][call], self.calls[2][call]
        return (begin + length, returned) if start >= begin + length else (begin, arrival)

    def _sync(self, syncs: Spans, i: int) -> None:
        thread, start = int(syncs.lane[i]), float(syncs.start_ns[i])
        arrival = self._arrive(thread, start)
        end = start + float(syncs.duration_ns[i])
        waited = [
            (ended, node)
            for node, ended in self.last_on_stream.values()
            if start < ended <= end + HANDOVER_NS
        ]
        latest = max((ended for ended, _ in waited), default=start)
        before = [arrival, *(node for _, node in waited)]
        rest = end - max(start, latest)
        node = self.build.node(Role.CALL, self.view.rank, self.names[syncs.name[i]], rest, before)
        self.build.blocking.append(node)
        self.last_on_thread[thread] = (node, end)

    def _span(self, i: int) -> None:
        build = self.build
        stream, start, length, name_number, kind = (column[i] for column in self.device)
        known: list[tuple[float, int]] = []
        if stream in self.last_on_stream:
            node, ended = self.last_on_stream[stream]
            known.append((ended, node))
        call = self.launch[i]
        if call in self.launched:
            known.append(self._launch(call, start))
        explained = max((ended for ended, _ in known), default=self.begin_ns)
        handover = min(SLOW_HANDOVER_NS, HANDOVER_RATIO * (start - explained))
        handover = max(HANDOVER_NS, handover)
        for other, (node, ended) in self.last_on_stream.items():
            if other != stream and explained < ended <= start and start - ended < handover:
                known.append((ended, node))
        if self.is_optimizer[name_number]:
            known += [(e, n) for n, e in self.last_collective.values() if e <= start]
        explained = max((ended for ended, _ in known), default=self.begin_ns)
        before = [node for _, node in known]
        name = self.names[name_number]
        delay = build.node(Role.DELAY, self.view.rank, "device", start - explained, before)
        row = build.collective_of.get((self.view.rank, i))
        if row is not None:
            collective, transfer_ns = row
            build.arrivals[collective].append(delay)
            node = build.transfer(collective, name, transfer_ns)
        else:
            role = Role.KERNEL if kind == Kind.KERNEL else Role.COPY
            if kind == Kind.KERNEL and self.is_collective[name_number]:
                role = Role.COLLECTIVE
            node = build.node(role, self.view.rank, name, length, [delay])
        self.last_on_stream[stream] = (node, start + length)
        if self.is_collective[name_number]:
            self.last_collective[stream] = (node, start + length)


def _spread(parts: list[tuple[Int64, Int64]], count: int) -> Float64:
    column = np.zeros(count)
    for node, value in parts:
        column[node] = value
    return column


def _collective_rows(matched: Collectives | None) -> dict[tuple[int, int], tuple[int, float]]:
    """(rank, device span) to the number of its collective and what the transfer took."""
    if matched is None:
        return {}
    return {
        (matched.ranks[column], span): (number, float(matched.shortest_ns[number]))
        for column, span, number in zip(
            matched.column.tolist(), matched.span.tolist(), matched.number.tolist(), strict=True
        )
    }
