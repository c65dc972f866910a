"""The dependency graph of recorded ranks: host threads, streams, and collectives between ranks.

A call of the host waits for the call before it; a device span for the span before it on its stream,
for its launch call, for a span on another stream at whose end it began, and for messages of other
ranks that had come when it was launched; a collective for what its thread had launched before it
and was over then; the optimizer for all collectives before it, since it needs the gradients; a
blocking call, or one that launches into a full queue, for the span that the device finished last; a
thread of which the trace does not tell what it did, for the blocking call of another that took most
of that time. Time that none of this explains stays with the node as its own, so that the graph
replays to what was recorded.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import IntEnum

import numpy as np
from numpy.typing import NDArray

from pilotlight import _replay
from pilotlight.errors import FormatError
from pilotlight.insights.blocking import MEMORY, awaits_copy, call_rows, draining_calls, stages_copy
from pilotlight.insights.collective import Collectives, clock_offsets
from pilotlight.insights.given import given_ns
from pilotlight.insights.idle_time import (
    compilations,
    host_spans,
    loader_waits,
)
from pilotlight.insights.job import Job
from pilotlight.insights.kernel import Category, category, communication_kind
from pilotlight.insights.name_signs import SAVES
from pilotlight.insights.rank import RankView
from pilotlight.insights.rank_wait import host_waits
from pilotlight.model.graph import Graph, graph_of, replay, without_predecessors
from pilotlight.trace.detail_row import detail_rows
from pilotlight.trace.interval import Intervals, union
from pilotlight.trace.trace import NONE, Bool, Float64, Int64, Kind, Spans, UInt8, UInt32

HOST_NAME, DEVICE_NAME = "host", "device"
# As in native/replay/recorded.h.
STAGED, HELD = 1, 2
# Operations of a group whose result is for the next work of this rank, not for the optimizer.
BRINGING = ("recv", "alltoall")
PARTS = ("loader", "gc", "compile", "checkpoint", "comm-wait")


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
    role: UInt8
    rank: NDArray[np.int32]
    name: UInt32
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
    """Raises FormatError if the ranks wait for each other in a circle, or no device worked."""
    if not job.ranks:
        raise FormatError("no device activity within the steps")
    offset_ns = _offsets_ns(job)
    begin_ns = min(
        int(view.trace.spans.start_ns.min()) - offset
        for view, offset in zip(job.ranks, offset_ns, strict=True)
    )
    end_ns = max(_end_ns(v) - offset for v, offset in zip(job.ranks, offset_ns, strict=True))
    names = {HOST_NAME: 0, DEVICE_NAME: 1}
    built = _replay.Recorded(0, 1)
    parts: dict[str, list[tuple[Int64, Int64]]] = {name: [] for name in PARTS}
    for column, (view, offset) in enumerate(zip(job.ranks, offset_ns, strict=True)):
        node, since, until = _add_rank(built, job, column, begin_ns + offset, names)
        for part, intervals in _host_parts(view).items():
            parts[part].append((node, intervals.within_ns(since, until)))
    first, predecessors = _edges(built)
    transfers = built.transfers()
    duration_ns, blocking = built.duration_ns(), np.zeros(len(first) - 1, np.bool_)
    blocking[built.waiting()] = True
    return RecordedGraph(
        graph_of(first, predecessors),
        built.role(),
        built.rank(),
        built.name(),
        tuple(names),
        duration_ns,
        {part: _spread(rows, len(duration_ns)) for part, rows in parts.items()},
        *_groups(job.collectives, transfers, len(duration_ns)),
        blocking,
        float(end_ns - begin_ns),
    )


def _end_ns(view: RankView) -> int:
    """When the last was over that is a node: also a call that waits for the last of the device."""
    launching = view.calls.end_ns[view.launch[view.launch != NONE]]
    waiting = view.trace.spans.take(draining_calls(view.trace)).end_ns
    return max(view.line.end_ns, *(int(ends.max(initial=0)) for ends in (launching, waiting)))


def _offsets_ns(job: Job) -> list[int]:
    """Ranks on other nodes have other clocks; those of one rank are all of one."""
    if job.collectives is None:
        return [0] * len(job.ranks)
    offsets, _ = clock_offsets(job.collectives)
    return [int(offset) for offset in offsets]


def _add_rank(
    built: _replay.Recorded, job: Job, column: int, begin_ns: int, names: dict[str, int]
) -> tuple[Int64, Int64, Int64]:
    view = job.ranks[column]
    device, own_names = view.device, view.trace.names
    numbers = [names.setdefault(name, len(names)) for name in own_names]
    number_of = np.array(numbers, np.uint32)
    communicates = _named(own_names, Category.COMMUNICATION)[device.name]
    is_kernel = device.kind == Kind.KERNEL
    role = np.where(is_kernel, Role.KERNEL, Role.COPY)
    collective, transfer_ns = _collectives(job.collectives, column, len(device))
    waits, holds = _waits(view)
    return built.add_rank(
        rank=view.rank,
        begin_ns=begin_ns,
        device=_columns(device, number_of),
        role=np.where(is_kernel & communicates, Role.COLLECTIVE, role).astype(np.uint8),
        collects=communicates.astype(np.uint8),
        receives=_receives(view).astype(np.uint8),
        optimizes=_named(own_names, Category.OPTIMIZER)[device.name].astype(np.uint8),
        launch=view.launch,
        collective=collective,
        transfer_ns=transfer_ns,
        calls=_columns(view.calls, number_of),
        holds=holds,
        given_ns=given_ns(view.trace, view.calls, waits),
        waits=_columns(waits, number_of),
        waits_given_ns=given_ns(view.trace, waits, waits),
    )


def _waits(view: RankView) -> tuple[Spans, UInt8]:
    """Calls that launch nothing and wait for the device; and for each that launches how it waits:
    HELD where a program could do without, STAGED where its copy takes the host too."""
    trace, spans = view.trace, view.trace.spans
    launches = np.zeros(len(view.calls), np.bool_)
    launches[view.launch[view.launch != NONE]] = True
    rows, drains = call_rows(trace), draining_calls(trace)
    kept = drains[rows] | awaits_copy(trace, view.device, view.launch, view.calls)
    staged = stages_copy(trace, view.device, view.launch, view.calls)
    drains[rows[launches]] = False
    holds = np.where(kept, HELD, np.where(staged, STAGED, 0)).astype(np.uint8)
    return spans.take(drains), holds


def _receives(view: RankView) -> Bool:
    """Whether a span of the device brings this rank what others computed for it."""
    messages = view.trace.detail.messages
    brings = [communication_kind(kind.operation) in BRINGING for kind in messages.kinds]
    place = detail_rows(messages, view.device)
    found = np.zeros(len(view.device), np.bool_)
    known = place != NONE
    found[known] = np.array(brings, np.bool_)[messages.kind[place[known]]]
    return found


def _columns(spans: Spans, number_of: UInt32) -> _replay.Spans:
    columns = (spans.lane, spans.start_ns, spans.duration_ns, number_of[spans.name])
    return _replay.Spans(*columns)


def _named(names: Sequence[str], wanted: Category) -> Bool:
    return np.array([category(name) is wanted for name in names], np.bool_)


def _collectives(matched: Collectives | None, column: int, count: int) -> tuple[Int64, Float64]:
    """For each device span the number of its collective, or -1, and what the transfer took."""
    number, transfer_ns = np.full(count, NONE, np.int64), np.zeros(count)
    if matched is not None:
        mine = matched.column == column
        number[matched.span[mine]] = matched.number[mine]
        transfer_ns[matched.span[mine]] = matched.shortest_ns[matched.number[mine]]
    return number, transfer_ns


def _host_parts(view: RankView) -> dict[str, Intervals]:
    """When the loader, the garbage collection and so on held the host."""
    trace = view.trace
    collected = trace.of_kind(Kind.GC)
    return {
        "loader": loader_waits(trace),
        "gc": union(collected.start_ns, collected.end_ns),
        "compile": compilations(trace),
        "checkpoint": host_spans(trace, SAVES),
        "comm-wait": host_waits(trace, view.device),
    }


def _edges(built: _replay.Recorded) -> tuple[Int64, Int64]:
    first, predecessors = (
        np.empty(built.node_count() + 1, np.int64),
        np.empty(built.edge_count(), np.int64),
    )
    built.fill_edges(first, predecessors)
    return first, predecessors


def _groups(
    matched: Collectives | None, transfers: dict[int, int], count: int
) -> tuple[Int64, tuple[str, ...]]:
    column = np.full(count, NONE, np.int64)
    if matched is None:
        return column, ()
    groups: dict[str, int] = {}
    for row, node in sorted(transfers.items()):
        column[node] = groups.setdefault(matched.what[row].group, len(groups))
    return column, tuple(groups)


def _spread(parts: list[tuple[Int64, Int64]], count: int) -> Float64:
    column = np.zeros(count)
    for node, value in parts:
        column[node] = value
    return column
