"""The dependency graph of a job with pipeline and data parallelism, from its operation rows.

Every rank does its operations in the order of their starts. A transfer begins when all that take
part have come to it, and ends for all together. So a row becomes a node for coming to the operation
(as long as the host took) and shares one for the operation itself with its partners.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass

import numpy as np

from pilotlight.errors import FormatError
from pilotlight.model.graph import Graph, graph_of_rows, replay
from pilotlight.trace.oprows import OperationRows
from pilotlight.trace.trace import Bool, Float64, Int64

SAME_START_NS = 20_000
# Starts are stored as 32-bit seconds and come from different clocks of a device.
SLACK_NS = 500_000

# Partner in a transfer: (kind, stage of the receiver relative to the sender).
_TRANSFERS = {"forward-send": ("forward-recv", 1), "backward-send": ("backward-recv", -1)}
_DATA_PARALLEL = ("grads-reduce-scatter", "params-all-gather", "grads-all-reduce")
_PIPELINE = ("embedding-grads-all-reduce",)
_WORLD = ("optimizer-clip-main-grad",)


@dataclass(frozen=True)
class Pipeline:
    """Nodes of one step, which all steps have alike, and their durations in every step.

    `kind`, `is_delay` and `rank` belong to the nodes; a node shared by ranks has the rank -1.
    Arrays of durations have one row a step.
    """

    graph: Graph
    steps: Int64
    kinds: tuple[str, ...]
    kind: Int64
    is_delay: Bool
    rank: Int64
    duration_ns: Float64
    measured_ns: Float64
    ranks: Int64
    rank_place: dict[int, tuple[int, int]]

    def step_ns(self, duration_ns: Float64) -> Float64:
        """How long each step takes with these durations."""
        longest: Float64 = replay(self.graph, duration_ns).max(axis=1)
        return longest

    def operation_ns(self) -> Float64:
        """Durations without the delays before operations, which are mostly waiting for something
        that the rows do not show."""
        return np.where(self.is_delay, 0.0, self.duration_ns)

    def ideal_ns(self) -> Float64:
        """Durations as if all ranks and steps were alike: what a rank does alone as the mean of its
        kind over all of them, transfers as the median, no delays."""
        ideal: Float64 = self.duration_ns.copy()
        for kind in np.unique(self.kind):
            mine = (self.kind == kind) & ~self.is_delay
            alone = mine & (self.rank >= 0)
            shared = mine & (self.rank < 0)
            if alone.any():
                ideal[:, alone] = self.duration_ns[:, alone].mean()
            if shared.any():
                ideal[:, shared] = np.median(self.duration_ns[:, shared])
        ideal[:, self.is_delay] = 0.0
        return ideal


def pipeline_of(rows: OperationRows) -> Pipeline:
    """Raises FormatError if the steps differ in what they do."""
    order = np.lexsort((rows.kind, rows.start_ns, rows.rank, rows.step))
    steps, counts = np.unique(rows.step, return_counts=True)
    usual = int(np.median(counts))
    chosen = steps[counts == usual]
    by_step = [order[rows.step[order] == step] for step in chosen]
    by_step = [part for part in by_step if _alike(rows, by_step[0], part)]
    if not by_step:
        raise FormatError(f"{rows.source}: no two steps do the same operations")
    table = np.stack(by_step)
    return _Build(rows, table).finish()


def _alike(rows: OperationRows, first: Int64, other: Int64) -> bool:
    return all(
        np.array_equal(np.sort(column[first]), np.sort(column[other]))
        for column in (rows.rank, rows.kind, rows.sequence)
    )


class _Build:
    def __init__(self, rows: OperationRows, table: Int64) -> None:
        self.rows = rows
        # The same operation in every step, whatever its place in the order of starts.
        keys = [np.lexsort((rows.sequence[t], rows.kind[t], rows.rank[t])) for t in table]
        self.table = np.stack([t[key] for t, key in zip(table, keys, strict=True)])
        self.first = self.table[0]
        self.preds: list[list[int]] = []
        self.kind: list[int] = []
        self.is_delay: list[bool] = []
        self.rank: list[int] = []
        self.columns: list[Float64] = []

    def finish(self) -> Pipeline:
        rows, first = self.rows, self.first
        start = rows.start_ns[self.table].astype(np.float64)
        end = start + rows.duration_ns[self.table]
        before, gap = self._program_order(start, end)
        groups = self._groups()
        arrivals = [
            self._node(int(rows.kind[r]), True, int(rows.rank[r]), gap[:, i])
            for i, r in enumerate(first)
        ]
        work: list[int] = [-1] * len(first)
        for members in groups:
            begun = start[:, members].max(axis=1)
            # What everyone stays beyond the last arrival is the transfer itself.
            length = np.maximum(end[:, members].min(axis=1) - begun, 0)
            owner = int(rows.rank[first[members[0]]]) if len(members) == 1 else -1
            node = self._node(int(rows.kind[first[members[0]]]), False, owner, length)
            self.preds[node] = [arrivals[i] for i in members]
            for i in members:
                work[i] = node
        for i, node in enumerate(arrivals):
            self.preds[node] = sorted({work[j] for j in before[i]})
        measured = end.max(axis=1) - start.min(axis=1)
        places = {int(rows.rank[r]): (int(rows.data_rank[r]), int(rows.stage[r])) for r in first}
        return Pipeline(
            graph_of_rows(self.preds),
            rows.step[self.table[:, 0]],
            rows.kinds,
            np.array(self.kind),
            np.array(self.is_delay),
            np.array(self.rank),
            np.stack(self.columns, axis=1),
            measured,
            np.unique(rows.rank[first]),
            places,
        )

    def _node(self, kind: int, is_delay: bool, rank: int, duration_ns: Float64) -> int:
        self.preds.append([])
        self.kind.append(kind)
        self.is_delay.append(is_delay)
        self.rank.append(rank)
        self.columns.append(duration_ns)
        return len(self.preds) - 1

    def _program_order(self, start: Float64, end: Float64) -> tuple[list[list[int]], Float64]:
        """For each operation those of its rank that had to end before, and the time between."""
        rows = self.rows
        before: list[list[int]] = [[] for _ in self.first]
        gap = np.zeros_like(start)
        middle = start - start.min(axis=1, keepdims=True)
        typical_start = np.median(middle, axis=0)
        typical_end = np.median(end - start.min(axis=1, keepdims=True), axis=0)
        for rank in np.unique(rows.rank[self.first]):
            mine = np.flatnonzero(rows.rank[self.first] == rank)
            mine = mine[np.argsort(typical_start[mine], kind="stable")]
            frontier: list[int] = []
            last: int | None = None
            for i in mine:
                done = [j for j in frontier if typical_end[j] <= typical_start[i] + SLACK_NS]
                since = typical_start[i] - typical_start[last] if last is not None else np.inf
                together = since < SAME_START_NS
                if last is not None and (together or not done):
                    before[i] = before[last]
                    frontier.append(int(i))
                else:
                    before[i] = done
                    frontier = [j for j in frontier if j not in done] + [int(i)]
                last = int(i)
                if before[i]:
                    gap[:, i] = np.maximum(start[:, i] - end[:, before[i]].max(axis=1), 0)
                else:
                    gap[:, i] = middle[:, i]
        return before, gap

    def _groups(self) -> list[list[int]]:
        """Operations that several ranks do together."""
        rows, first = self.rows, self.first
        groups: dict[tuple[object, ...], list[int]] = defaultdict(list)
        for i, r in enumerate(first):
            name = rows.kinds[rows.kind[r]]
            stage, data, seq = int(rows.stage[r]), int(rows.data_rank[r]), int(rows.sequence[r])
            if name in _TRANSFERS:
                partner, offset = _TRANSFERS[name]
                key: tuple[object, ...] = (partner, stage + offset, data, seq)
            elif name in ("forward-recv", "backward-recv"):
                key = (name, stage, data, seq)
            elif name in _DATA_PARALLEL:
                key = (name, stage, seq)
            elif name in _PIPELINE:
                key = (name, "pipeline", data, seq)
            elif name in _WORLD:
                key = (name, "world", seq)
            else:
                key = ("alone", i)
            groups[key].append(i)
        return list(groups.values())
