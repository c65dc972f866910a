"""Puts the spans of a rank into rows in which none covers another."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from pilotlight.trace.trace import Int64, Kind, Lane, Trace

DEVICE_KINDS = (Kind.KERNEL, Kind.MEMCPY, Kind.MEMSET, Kind.SYNC, Kind.DEVICE_ANNOTATION)
DEEPEST = 64
SUMMARY = "where the time goes"
PATH = "critical path"
MADE = (SUMMARY, PATH)
"""Lanes that sum up a rank and come first, in this order."""


@dataclass(frozen=True)
class Row:
    """A depth of nesting of one lane."""

    title: str
    is_device: bool
    depth: int


@dataclass(frozen=True)
class Layout:
    """`order[first[r] : first[r + 1]]` are the spans of row r by time."""

    rows: tuple[Row, ...]
    first: Int64
    order: Int64
    left_out: int


def layout_of(trace: Trace) -> Layout:
    """Devices first, then host threads, each the busiest first; spans nested deeper than DEEPEST
    are left out and counted."""
    spans = trace.spans
    by_lane = np.argsort(spans.lane, kind="stable")
    bounds = np.searchsorted(spans.lane[by_lane], np.arange(len(trace.lanes) + 1))
    lanes = []
    for number, lane in enumerate(trace.lanes):
        mine = by_lane[bounds[number] : bounds[number + 1]]
        if mine.size:
            is_device = bool(np.isin(spans.kind[mine], np.array(DEVICE_KINDS, np.uint8)).any())
            busy_ns = int(spans.duration_ns[mine].sum())
            made = MADE.index(lane.name) if is_made(lane) else len(MADE)
            is_host = not is_device and not is_made(lane)
            lanes.append((made, is_host, -busy_ns, number, lane, mine))
    lanes.sort(key=lambda item: item[:4])
    rows: list[Row] = []
    order = []
    left_out = 0
    for _, is_host, _, _, lane, mine in lanes:
        sorted_rows, depth = nested(trace, mine)
        for level in range(min(int(depth.max()) + 1, DEEPEST)):
            at = sorted_rows[depth == level]
            if at.size:
                rows.append(Row(title_of(lane, not is_host), not is_host, level))
                order.append(at)
        left_out += int(np.count_nonzero(depth >= DEEPEST))
    first = np.concatenate(([0], np.cumsum([part.size for part in order]))).astype(np.int64)
    whole = np.concatenate(order) if order else np.empty(0, np.int64)
    return Layout(tuple(rows), first, whole, left_out)


def is_made(lane: Lane) -> bool:
    """Whether the page added it; no tool writes lanes without a process and a thread."""
    return lane.name in MADE and not lane.process and not lane.thread


def title_of(lane: Lane, is_device: bool) -> str:
    name = lane.name.strip() or lane.thread
    if is_made(lane):
        return name
    if is_device and lane.process.isdecimal():
        return f"GPU {lane.process} · {f'stream {name}' if name.isdecimal() else name}"
    return name if not lane.process or lane.process in name else f"{lane.process} · {name}"


def nested(trace: Trace, mine: Int64) -> tuple[Int64, Int64]:
    """The spans of a lane by begin, and how many of the lane each lies within."""
    start = trace.spans.start_ns[mine]
    end = start + np.maximum(trace.spans.duration_ns[mine], 1)
    order = np.lexsort((-end, start))
    start, end = start[order], end[order]
    # Of the spans that began before, those count that have not ended yet.
    depth = np.arange(start.size) - np.searchsorted(np.sort(end), start, side="right")
    if _collides(start, end, depth):
        depth = _spread(start, end)
    return mine[order], depth


def _collides(start: Int64, end: Int64, depth: Int64) -> bool:
    by_depth = np.argsort(depth, kind="stable")
    same = depth[by_depth][1:] == depth[by_depth][:-1]
    return bool((same & (start[by_depth][1:] < end[by_depth][:-1])).any())


def _spread(start: Int64, end: Int64) -> Int64:
    """The first row that is free: for spans that overlap without one lying in the other."""
    free_from: list[int] = []
    depth = []
    for begin, finish in zip(start.tolist(), end.tolist(), strict=True):
        row = next((r for r, free in enumerate(free_from) if free <= begin), len(free_from))
        if row == len(free_from) and row < DEEPEST:
            free_from.append(finish)
        elif row < DEEPEST:
            free_from[row] = finish
        depth.append(row)
    return np.array(depth, np.int64)
