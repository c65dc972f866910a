"""A dependency graph and its replay: when everything ends, given how long each part takes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from pilotlight.errors import FormatError
from pilotlight.trace.trace import Bool, Float64, Int64


@dataclass(frozen=True)
class Graph:
    """Nodes 0 to n-1 by level: a node's predecessors are all on earlier levels.

    `order` lists the nodes level by level, `level_start` where each level begins in it;
    `predecessors[first[i] : first[i + 1]]` are those of node i.
    """

    order: Int64
    level_start: Int64
    first: Int64
    predecessors: Int64

    def __len__(self) -> int:
        return len(self.order)


def graph_of(predecessors: Sequence[Sequence[int]]) -> Graph:
    """From the predecessors of each node; raises FormatError if they form a circle."""
    count = len(predecessors)
    lengths = np.fromiter((len(row) for row in predecessors), np.int64, count)
    first = np.concatenate(([0], np.cumsum(lengths)))
    flat = np.fromiter((p for row in predecessors for p in row), np.int64, int(first[-1]))
    successors: list[list[int]] = [[] for _ in range(count)]
    for node, row in enumerate(predecessors):
        for before in row:
            successors[before].append(node)
    waiting = lengths.copy()
    level = [node for node in range(count) if not waiting[node]]
    order: list[int] = []
    starts = []
    while level:
        starts.append(len(order))
        order += level
        following = []
        for node in level:
            for after in successors[node]:
                waiting[after] -= 1
                if not waiting[after]:
                    following.append(after)
        level = following
    if len(order) != count:
        raise FormatError("the operations wait for each other in a circle: cannot be replayed")
    return Graph(np.array(order, np.int64), np.array([*starts, count], np.int64), first, flat)


def without_predecessors(graph: Graph, nodes: Bool) -> Graph:
    """These nodes wait only for the first of those they waited for. The levels stay good: with
    fewer to wait for, each still comes after what it waits for."""
    counts = np.diff(graph.first)
    kept_counts = np.where(nodes, np.minimum(counts, 1), counts)
    owner = np.repeat(np.arange(len(counts)), counts)
    place = np.arange(len(graph.predecessors)) - graph.first[owner]
    kept = graph.predecessors[~nodes[owner] | (place == 0)]
    first = np.concatenate(([0], np.cumsum(kept_counts)))
    return Graph(graph.order, graph.level_start, first, kept)


def replay(graph: Graph, duration: Float64) -> Float64:
    """End of each node; `duration` and the result have one row a scenario, one column a node."""
    ends = np.zeros_like(duration)
    for begin, end in zip(graph.level_start[:-1], graph.level_start[1:], strict=True):
        nodes = graph.order[begin:end]
        counts = graph.first[nodes + 1] - graph.first[nodes]
        if not counts[0]:
            ends[:, nodes] = duration[:, nodes]
            continue
        offsets = np.concatenate(([0], np.cumsum(counts)[:-1]))
        places = np.repeat(graph.first[nodes] - offsets, counts) + np.arange(counts.sum())
        ready = np.maximum.reduceat(ends[:, graph.predecessors[places]], offsets, axis=1)
        ends[:, nodes] = ready + duration[:, nodes]
    return ends
