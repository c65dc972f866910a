"""Spans of a lane as calls: which lies within which, and what of each is its own."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from pilotlight.trace.trace import Int64, Spans, Trace


@dataclass
class Node:
    """A name as called from `parent`; node 0 is the root, which has neither."""

    parent: int
    name: int
    count: int = 0
    self_ns: int = 0


def lane_parts(trace: Trace, rows: Int64 | None = None) -> Iterator[tuple[int, list[int]]]:
    """Each lane with its rows, all or those given, once for each part of it that nests."""
    if rows is None:
        rows = np.arange(len(trace.spans))
    order = rows[np.argsort(trace.spans.lane[rows], kind="stable")]
    lanes, first = np.unique(trace.spans.lane[order], return_index=True)
    ends = [*first[1:].tolist(), len(order)]
    for lane, begin, end in zip(lanes.tolist(), first.tolist(), ends, strict=False):
        for part in nested_rows(trace, order[begin:end]):
            yield lane, part


def nested_rows(trace: Trace, rows: Int64) -> list[list[int]]:
    """Rows in the order of begins, divided so that in each part spans lie within or after each
    other: a viewer would cut off those that overlap otherwise."""
    start = trace.spans.start_ns[rows]
    end = start + trace.spans.duration_ns[rows]
    order = np.lexsort((-end, start))
    parts: list[list[int]] = []
    stacks: list[list[int]] = []
    for i in order.tolist():
        begin, finish = int(start[i]), int(end[i])
        for part, stack in zip(parts, stacks, strict=True):
            while stack and stack[-1] <= begin:
                stack.pop()
            if not stack or finish <= stack[-1]:
                stack.append(finish)
                part.append(int(rows[i]))
                break
        else:
            parts.append([int(rows[i])])
            stacks.append([finish])
    return parts


def own_parts(spans: Spans, value_ns: Int64) -> Int64:
    """Of a value that each span has, what the spans directly within it do not have."""
    own = value_ns.copy()
    parent = parents(spans)
    inner = np.flatnonzero(parent >= 0)
    np.subtract.at(own, parent[inner], value_ns[inner])
    kept: Int64 = np.maximum(own, 0)
    return kept


def parents(spans: Spans) -> Int64:
    """For each span the row of the one directly around it on its lane, or -1."""
    order = np.lexsort((-spans.end_ns, spans.start_ns, spans.lane))
    # Views: lists of so many numbers would take several times the memory.
    columns = (spans.lane[order].data, spans.start_ns[order].data, spans.end_ns[order].data)
    place = np.fromiter(_parents(*columns), np.int64, len(order))
    found = np.full(len(order), -1, np.int64)
    found[order] = np.where(place >= 0, order[place], -1)
    return found


def _parents(lane: memoryview, start: memoryview, end: memoryview) -> Iterator[int]:
    """For spans in order the place of the one directly around each, or -1."""
    stack: list[int] = []
    for i, (thread, begin, finish) in enumerate(zip(lane, start, end, strict=True)):
        while stack and (
            lane[stack[-1]] != thread or end[stack[-1]] < finish or end[stack[-1]] <= begin
        ):
            stack.pop()
        yield stack[-1] if stack else -1
        stack.append(i)


def call_tree(trace: Trace, rows: list[int]) -> list[Node]:
    """The rows of one part, by the path of names that leads to them."""
    spans = trace.spans
    nodes = [Node(0, 0)]
    known: dict[tuple[int, int], int] = {}
    stack: list[tuple[int, int]] = []  # end, node
    for row in rows:
        begin, length = int(spans.start_ns[row]), int(spans.duration_ns[row])
        while stack and stack[-1][0] <= begin:
            stack.pop()
        parent = stack[-1][1] if stack else 0
        key = parent, int(spans.name[row])
        if key not in known:
            known[key] = len(nodes)
            nodes.append(Node(*key))
        node = known[key]
        nodes[node].count += 1
        nodes[node].self_ns += length
        nodes[parent].self_ns -= length
        stack.append((begin + length, node))
    nodes[0].self_ns = 0
    return nodes
