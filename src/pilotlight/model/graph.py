"""A dependency graph and its replay: when everything ends, given how long each part takes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from pilotlight import _replay
from pilotlight.errors import FormatError
from pilotlight.trace.trace import Bool, Float64, Int64


@dataclass(frozen=True)
class Graph:
    """Nodes 0 to n-1; `order` lists them so that each comes after those it waits for:
    `predecessors[first[i] : first[i + 1]]` are those of node i."""

    order: Int64
    first: Int64
    predecessors: Int64

    def __len__(self) -> int:
        return len(self.order)


def graph_of(first: Int64, predecessors: Int64) -> Graph:
    """From the columns of a Graph; raises FormatError if nodes wait for each other in a circle."""
    order = np.empty(len(first) - 1, np.int64)
    if not _replay.put_in_order(first, predecessors, order):
        raise FormatError("the operations wait for each other in a circle: cannot be replayed")
    return Graph(order, first, predecessors)


def graph_of_rows(predecessors: Sequence[Sequence[int]]) -> Graph:
    """From the predecessors of each node."""
    lengths = np.fromiter((len(row) for row in predecessors), np.int64, len(predecessors))
    first = np.concatenate(([0], np.cumsum(lengths)))
    flat = np.fromiter((p for row in predecessors for p in row), np.int64, int(first[-1]))
    return graph_of(first, flat)


def without_predecessors(graph: Graph, nodes: Bool) -> Graph:
    """These nodes wait only for the first of those they waited for. The order stays good: with
    fewer to wait for, each still comes after what it waits for."""
    counts = np.diff(graph.first)
    kept_counts = np.where(nodes, np.minimum(counts, 1), counts)
    owner = np.repeat(np.arange(len(counts)), counts)
    place = np.arange(len(graph.predecessors)) - graph.first[owner]
    kept = graph.predecessors[~nodes[owner] | (place == 0)]
    first = np.concatenate(([0], np.cumsum(kept_counts)))
    return Graph(graph.order, first, kept)


def replay(graph: Graph, duration: Float64) -> Float64:
    """End of each node; `duration` and the result have one row a scenario, one column a node."""
    ends = np.empty(duration.shape)
    for row, end in zip(duration, ends, strict=True):
        _replay.replay(graph.first, graph.predecessors, graph.order, row, end)
    return ends
