"""Collectives matched across ranks: who arrived when, what was waiting and what was transfer."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from pilotlight.insights.kernel import Category, category, communication_kind
from pilotlight.insights.rank import RankView
from pilotlight.trace.detail import Message
from pilotlight.trace.detail_row import detail_rows
from pilotlight.trace.interval import Intervals, union
from pilotlight.trace.trace import NONE, Bool, Float64, Int64, Kind

MAX_UNCERTAINTY_NS = 50_000
SAME_END_NS = 20_000
PAIR = "pair "
CLOCK_ROUNDS = 20


@dataclass(frozen=True)
class Stay:
    """What is known of a collective: its group is empty where the trace does not say."""

    group: str
    operation: str
    size: int
    bytes: int

    @property
    def is_pair(self) -> bool:
        """A transfer between two, such as between stages: waiting in it may be by design."""
        return self.group.startswith(PAIR)


@dataclass(frozen=True)
class Collectives:
    """Rows are the stays of a rank in a collective, those of one collective together: they begin
    at `first`. All ranks leave together, so what a rank stays beyond the shortest stay is waiting
    for the last to arrive."""

    ranks: tuple[int, ...]
    column: Int64
    span: Int64
    step: Int64
    start_ns: Int64
    duration_ns: Int64
    first: Int64
    what: tuple[Stay, ...]

    def __len__(self) -> int:
        return len(self.what)

    @cached_property
    def number(self) -> Int64:
        """The collective of each row."""
        return np.repeat(np.arange(len(self)), np.diff(self.first))

    @cached_property
    def shortest_ns(self) -> Int64:
        """Of each collective: the transfer, after all have come."""
        shortest: Int64 = np.minimum.reduceat(self.duration_ns, self.first[:-1])
        return shortest

    @cached_property
    def wait_ns(self) -> Int64:
        waits: Int64 = self.duration_ns - self.shortest_ns[self.number]
        return waits

    @cached_property
    def last(self) -> Int64:
        """The column of the rank that came last to each collective."""
        order = np.lexsort((self.duration_ns, self.number))
        column: Int64 = self.column[order[self.first[:-1]]]
        return column

    @cached_property
    def is_pair(self) -> Bool:
        return np.array([what.is_pair for what in self.what], np.bool_)

    def waits(self, column: int, chosen: Bool | None = None) -> Intervals:
        """When this rank waited, in all or in these collectives."""
        mine = self.column == column
        if chosen is not None:
            mine = mine & chosen[self.number]
        start_ns = self.start_ns[mine]
        return union(start_ns, start_ns + self.wait_ns[mine])

    def transfers(self, column: int) -> Intervals:
        """When this rank was in a collective that all had come to."""
        mine = self.column == column
        end_ns = self.start_ns[mine] + self.duration_ns[mine]
        return union(end_ns - self.shortest_ns[self.number[mine]], end_ns)


def match_collectives(ranks: Sequence[RankView]) -> Collectives | None:
    """By group, operation and order within each step; where the ranks' counts differ in a step (a
    profiler lost events), by when they end, with the clocks as the other steps set them. None if
    nothing matches."""
    if len(ranks) < 2:
        return None
    cells = _cells(ranks)
    whole = _collectives(ranks, cells, None)
    if whole is None:
        return None
    if not any(_is_uneven(steps) for steps in cells.values()):
        return whole
    offsets, _ = clock_offsets(whole)
    return _collectives(ranks, cells, offsets)


def _collectives(
    ranks: Sequence[RankView], cells: dict[Stay, Cell], offsets_ns: Float64 | None
) -> Collectives | None:
    rows: list[Row] = []
    what: list[Stay] = []
    counts: list[int] = []
    for stay, steps in cells.items():
        members = {column for by_column in steps.values() for column in by_column}
        if len(members) < 2 or (not stay.group and len(members) < len(ranks)):
            continue
        found = _matched(ranks, members, steps, offsets_ns)
        if not stay.group and not _leave_together(found):
            continue
        for collective in found:
            rows += collective
            what.append(stay)
            counts.append(len(collective))
    if not what:
        return None
    column, span, step, start_ns, duration_ns = (
        np.array(values, np.int64) for values in zip(*rows, strict=True)
    )
    first = np.concatenate(([0], np.cumsum(counts)))
    numbers = tuple(view.rank for view in ranks)
    return Collectives(numbers, column, span, step, start_ns, duration_ns, first, tuple(what))


def clock_offsets(found: Collectives) -> tuple[Float64, float]:
    """How far the clock of each rank is ahead, from the common ends of collectives, and how far
    the ends still differ after correction, both in nanoseconds. Ranks that share no collective
    with others stay at 0."""
    chosen = (
        ~found.is_pair[found.number]
        if (~found.is_pair).any()
        else np.ones(len(found.column), np.bool_)
    )
    column, number = found.column[chosen], found.number[chosen]
    ends = (found.start_ns + found.duration_ns)[chosen].astype(np.float64)
    offsets = np.zeros(len(found.ranks))
    ahead = np.zeros(len(ends))
    for _ in range(CLOCK_ROUNDS):
        corrected = ends - offsets[column]
        sums = np.bincount(number, corrected - ends.min(), len(found))
        centre = sums / np.maximum(np.bincount(number, minlength=len(found)), 1) + ends.min()
        ahead = corrected - centre[number]
        change = np.array(
            [
                float(np.median(ahead[column == i])) if (column == i).any() else 0.0
                for i in range(len(offsets))
            ]
        )
        offsets += change
        if np.abs(change).max() < 1:
            break
    return offsets - np.median(offsets), float(np.median(np.abs(ahead)))


Cell = dict[int, dict[int, list[int]]]


def _cells(ranks: Sequence[RankView]) -> dict[Stay, Cell]:
    """By what a collective is, step and rank: rows of the rank's device spans, in order."""
    cells: dict[Stay, Cell] = defaultdict(lambda: defaultdict(lambda: defaultdict(list)))
    for column, view in enumerate(ranks):
        spans = view.device
        wanted = np.array(
            [category(name) is Category.COMMUNICATION for name in view.trace.names], np.bool_
        )
        rows = np.flatnonzero(wanted[spans.name] & (spans.kind == Kind.KERNEL))
        rows = rows[np.argsort(spans.start_ns[rows], kind="stable")]
        stays = _stays(view, rows)
        for row, step, stay in zip(rows.tolist(), _steps(view, rows).tolist(), stays, strict=True):
            cells[stay][step][column].append(row)
    return cells


def _stays(view: RankView, rows: Int64) -> list[Stay]:
    messages = view.trace.detail.messages
    by_kind = [_stay(view.rank, message) for message in messages.kinds]
    names = view.trace.names
    spans = view.device.take(rows)
    found = []
    for name, row in zip(spans.name.tolist(), detail_rows(messages, spans).tolist(), strict=True):
        if row == NONE:
            found.append(Stay("", communication_kind(names[name]), 0, 0))
        else:
            found.append(by_kind[messages.kind[row]])
    return found


def _stay(rank: int, message: Message) -> Stay:
    if message.partner < 0:
        return Stay(message.group, message.operation, message.size, message.bytes)
    ends = (rank, message.partner)
    source, target = ends if "send" in message.operation.lower() else ends[::-1]
    return Stay(f"{PAIR}{source} to {target}", "transfer", 2, message.bytes)


def _steps(view: RankView, rows: Int64) -> Int64:
    """The step in which the host launched; a collective may well end in the next."""
    launch = view.launch[rows]
    time_ns = view.device.start_ns[rows]
    if len(view.calls):
        time_ns = np.where(launch == NONE, time_ns, view.calls.start_ns[launch])
    if not len(view.trace.steps):
        return np.zeros(len(rows), np.int64)
    return np.searchsorted(view.trace.steps.start_ns, time_ns, side="right").astype(np.int64)


Row = tuple[int, int, int, int, int]


def _is_uneven(steps: Cell) -> bool:
    return any(len({len(rows) for rows in by_column.values()}) > 1 for by_column in steps.values())


def _matched(
    ranks: Sequence[RankView], members: set[int], steps: Cell, offsets_ns: Float64 | None
) -> list[list[Row]]:
    found = []
    for step, by_column in sorted(steps.items()):
        if set(by_column) != members:
            continue
        rows = {
            column: [
                (column, row, step, int(spans.start_ns[row]), int(spans.duration_ns[row]))
                for row in by_column[column]
            ]
            for column in sorted(members)
            for spans in (ranks[column].device,)
        }
        if len({len(each) for each in rows.values()}) == 1:
            found += [list(collective) for collective in zip(*rows.values(), strict=True)]
        elif offsets_ns is not None:
            found += _by_ends(rows, offsets_ns)
    return found


def _by_ends(rows: dict[int, list[Row]], offsets_ns: Float64) -> list[list[Row]]:
    """Collectives that all members have, by the time at which they leave together."""
    ends = sorted(
        (row[3] + row[4] - offsets_ns[column], row) for column, each in rows.items() for row in each
    )
    found: list[list[Row]] = []
    together: dict[int, Row] = {}
    since = 0.0
    for end, row in ends:
        if together and (end - since > SAME_END_NS or row[0] in together):
            together = {}
        if not together:
            since = end
        together[row[0]] = row
        if len(together) == len(rows):
            found.append([together[column] for column in sorted(together)])
            together = {}
    return found


def _leave_together(found: list[list[Row]]) -> bool:
    """Otherwise the rows are not the same collective: the ranks use several groups."""
    if not found:
        return False
    table = np.array(found, np.float64)
    ends, durations = table[:, :, 3] + table[:, :, 4], table[:, :, 4]
    ahead = ends - np.median(ends, axis=1, keepdims=True)
    rest = float(np.median(np.abs(ahead - np.median(ahead, axis=0))))
    return rest <= max(MAX_UNCERTAINTY_NS, 0.2 * float(np.median(durations)))
