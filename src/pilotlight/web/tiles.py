"""Levels of detail of a timeline: what a screen can show of a stretch of time, and no more."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from pilotlight.trace.trace import NONE, Int64, Trace, UInt8
from pilotlight.web.layout import Layout
from pilotlight.web.table import stream, texts_of

BINS = 1024
DEEPEST_LEVEL = 48


@dataclass(frozen=True)
class Extent:
    """The time that the pyramid covers: level L divides it into 2 ** L tiles of BINS bins."""

    start_ns: int
    end_ns: int

    @property
    def length_ns(self) -> int:
        return max(self.end_ns - self.start_ns, BINS)

    @property
    def levels(self) -> int:
        """From the last of them on a bin is not longer than a nanosecond."""
        return min(DEEPEST_LEVEL, max(1, math.ceil(math.log2(self.length_ns / BINS)) + 1))

    def tile(self, level: int, index: int) -> tuple[float, float]:
        wide = self.length_ns / (1 << level)
        return self.start_ns + index * wide, self.start_ns + (index + 1) * wide


@dataclass(frozen=True)
class Boxes:
    """What a tile shows. `count` spans stand for one box; name and activity are those of the
    longest of them, `span` is its number."""

    row: Int64
    start_ns: Int64
    end_ns: Int64
    span: Int64
    count: Int64


def boxes(trace: Trace, layout: Layout, extent: Extent, level: int, index: int) -> Boxes:
    """Spans of at least a bin as they are; shorter ones of the same bin and row together."""
    from_ns, to_ns = extent.tile(level, index)
    bin_ns = (to_ns - from_ns) / BINS
    span, row = _within(trace, layout, from_ns, to_ns)
    start = trace.spans.start_ns[span]
    duration = trace.spans.duration_ns[span]
    is_long = duration >= bin_ns
    place = np.floor((start - from_ns) / bin_ns).astype(np.int64)
    opens = np.ones(span.size, np.bool_)
    opens[1:] = is_long[1:] | is_long[:-1] | (row[1:] != row[:-1]) | (place[1:] != place[:-1])
    first = np.flatnonzero(opens)
    if not first.size:
        none = np.empty(0, np.int64)
        return Boxes(none, none, none, none, none)
    group = np.cumsum(opens) - 1
    longest = np.lexsort((-duration, group))[first]
    count = np.diff(np.append(first, span.size))
    end = np.maximum.reduceat(start + duration, first)
    return Boxes(row[first], start[first], end, span[longest], count)


def merging(trace: Trace, layout: Layout, extent: Extent, level: int) -> list[int]:
    """The tiles of a level in which a box stands for several spans: only theirs have finer ones
    that show more."""
    bin_ns = extent.length_ns / (1 << level) / BINS
    starts, durations = trace.spans.start_ns[layout.order], trace.spans.duration_ns[layout.order]
    row = np.repeat(np.arange(len(layout.rows)), np.diff(layout.first))
    place = np.floor((starts - extent.start_ns) / bin_ns).astype(np.int64)
    is_short = durations < bin_ns
    together = is_short[1:] & is_short[:-1] & (row[1:] == row[:-1]) & (place[1:] == place[:-1])
    found = np.unique(place[1:][together] // BINS)
    # What begins at the very end counts for the last tile.
    return sorted(set(found.clip(0, (1 << level) - 1).tolist()))


def _within(trace: Trace, layout: Layout, from_ns: float, to_ns: float) -> tuple[Int64, Int64]:
    """Spans that touch the time, by row and begin. Within a row they end in the same order."""
    starts = trace.spans.start_ns
    pieces, rows = [], []
    for row in range(len(layout.rows)):
        mine = layout.order[layout.first[row] : layout.first[row + 1]]
        begin = starts[mine]
        low = int(np.searchsorted(begin, from_ns, side="right"))
        high = int(np.searchsorted(begin, to_ns, side="left"))
        if low and begin[low - 1] + trace.spans.duration_ns[mine[low - 1]] > from_ns:
            low -= 1
        if high > low:
            pieces.append(mine[low:high])
            rows.append(np.full(high - low, row, np.int64))
    if not pieces:
        return np.empty(0, np.int64), np.empty(0, np.int64)
    return np.concatenate(pieces), np.concatenate(rows)


def tile(
    trace: Trace,
    layout: Layout,
    activity: UInt8,
    partner: Int64,
    row_of: Int64,
    extent: Extent,
    level: int,
    index: int,
) -> bytes:
    """An Arrow stream; times are relative to the begin of the extent. `flow_*`: the launch of a
    kernel, or the kernel of a launch; the row is -1 where there is none."""
    found = boxes(trace, layout, extent, level, index)
    other = np.where(found.count == 1, partner[found.span], NONE)
    linked = other != NONE
    base = extent.start_ns
    flow_row = np.where(linked, row_of[other], -1)
    return stream(
        {
            "row": found.row.astype(np.uint32),
            "start": (found.start_ns - base).astype(np.float64),
            "duration": (found.end_ns - found.start_ns).astype(np.float64),
            "count": found.count.astype(np.uint32),
            "activity": activity[found.span],
            "span": found.span.astype(np.uint32),
            "flow_row": flow_row.astype(np.int32),
            "flow_start": np.where(linked, trace.spans.start_ns[other] - base, 0.0).astype(
                np.float64
            ),
            "name": texts_of(trace.names, trace.spans.name[found.span]),
        }
    )


def partners(trace: Trace) -> Int64:
    """For each span the one with the same correlation on the other side, or -1."""
    spans = trace.spans
    found = np.full(len(spans), NONE, np.int64)
    known = np.flatnonzero(spans.correlation > 0)
    is_device = (spans.kind[known] >= 5) & (spans.kind[known] <= 7)
    device, host = known[is_device], known[~is_device & (spans.kind[known] == 4)]
    for mine, others in ((device, host), (host, device)):
        if not mine.size or not others.size:
            continue
        order = others[np.argsort(spans.correlation[others], kind="stable")]
        keys = spans.correlation[order]
        place = np.searchsorted(keys, spans.correlation[mine]).clip(max=keys.size - 1)
        fits = keys[place] == spans.correlation[mine]
        found[mine[fits]] = order[place[fits]]
    return found


def rows_of(layout: Layout, spans: int) -> Int64:
    """The row of each span; -1 for those that were left out."""
    row = np.full(spans, -1, np.int64)
    row[layout.order] = np.repeat(np.arange(len(layout.rows)), np.diff(layout.first))
    return row
