"""The detail of a recording as tracks of nested slices, instants and counters, in order of time."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from pilotlight.export.stacks import thread_label, thread_samples
from pilotlight.recording.columns import Array, Columns
from pilotlight.recording.recording import Recording
from pilotlight.recording.schema import MarkKind, SpanFlag, SpanKind
from pilotlight.report.losses import reason_text

OVERLAPS_LIMIT = 16


@dataclass(frozen=True)
class Slice:
    start_ns: int
    end_ns: int
    name: str


@dataclass(frozen=True)
class Track:
    """`thread` None: a track of the process. Slices begin in order and nest, or follow each other.

    `number` tells tracks of one title apart; 0 is the first.
    """

    process: int
    thread: int | None
    title: str
    number: int
    slices: list[Slice]


@dataclass(frozen=True)
class Instant:
    process: int
    thread: int
    time_ns: int
    name: str
    value: int


@dataclass(frozen=True)
class CounterTrack:
    process: int
    name: str
    time_ns: Array
    values: Array


def tracks(recording: Recording) -> Iterator[Track]:
    """Steps, collections, losses and ranges; one track is held at a time."""
    yield from _steps(recording)
    yield from _collections(recording)
    yield from _gaps(recording)
    yield from _ranges(recording)


def boundaries(slices: Sequence[Slice]) -> Iterator[tuple[int, Slice | None]]:
    """The begins (with their slice) and ends (None) of a track, in order and balanced."""
    open_ends: list[int] = []
    for item in slices:
        while open_ends and open_ends[-1] <= item.start_ns:
            yield open_ends.pop(), None
        yield item.start_ns, item
        open_ends.append(item.end_ns)
    while open_ends:
        yield open_ends.pop(), None


def nested_lanes(slices: Sequence[Slice]) -> list[list[Slice]]:
    """Slices that overlap without nesting are spread over lanes in which all do nest.

    Beyond OVERLAPS_LIMIT lanes a slice ends with the one that it overlaps.
    """
    lanes: list[_Lane] = []
    for item in sorted(slices, key=lambda item: (item.start_ns, -item.end_ns)):
        lane = next((lane for lane in lanes if lane.fits(item)), None)
        if lane is None and len(lanes) < OVERLAPS_LIMIT:
            lane = _Lane()
            lanes.append(lane)
        (lane or lanes[-1]).add(item)
    return [lane.slices for lane in lanes]


class _Lane:
    def __init__(self) -> None:
        self.slices: list[Slice] = []
        self._ends: list[int] = []

    def fits(self, item: Slice) -> bool:
        while self._ends and self._ends[-1] <= item.start_ns:
            self._ends.pop()
        return not self._ends or item.end_ns <= self._ends[-1]

    def add(self, item: Slice) -> None:
        if self._ends and self._ends[-1] < item.end_ns:
            item = replace(item, end_ns=self._ends[-1])
        self.slices.append(item)
        self._ends.append(item.end_ns)


def _steps(recording: Recording) -> Iterator[Track]:
    for process, rows in _by(recording.detail("steps"), "process"):
        numbers = zip(
            rows["start_ns"].tolist(),
            rows["duration_ns"].tolist(),
            rows["step"].tolist(),
            strict=True,
        )
        slices = [Slice(start, start + length, f"step {step}") for start, length, step in numbers]
        yield from _lanes(process, None, "steps", slices)


def _collections(recording: Recording) -> Iterator[Track]:
    table = recording.detail("spans")
    for process, rows in _by(table.where(table["kind"] == SpanKind.GC), "process"):
        slices = _slices(rows, ["garbage collection"] * rows.rows)
        yield from _lanes(process, None, "garbage collection", slices)


def _ranges(recording: Recording) -> Iterator[Track]:
    table = recording.detail("spans")
    for process, rows in _by(table.where(table["kind"] != SpanKind.GC), "process"):
        for thread, mine in _by(rows, "thread"):
            found = recording.names.find(mine["process"], mine["name"]).tolist()
            texts = [
                recording.names.texts[number] + _suffix(flags)
                for number, flags in zip(found, mine["flags"].tolist(), strict=True)
            ]
            title = thread_label(recording, process, thread)
            yield from _lanes(process, thread, title, _slices(mine, texts))


def _suffix(flags: int) -> str:
    cut = " (never closed)" if flags & SpanFlag.NEVER_CLOSED else ""
    return cut + (" (begin lost)" if flags & SpanFlag.BEGIN_LOST else "")


def _gaps(recording: Recording) -> Iterator[Track]:
    for process, rows in _by(recording.detail("gaps"), "process"):
        columns = [rows[name].tolist() for name in ("first_ns", "last_ns", "count", "reason")]
        slices = [
            Slice(first, max(first, last), f"{count} records lost: {reason_text(reason)}")
            for first, last, count, reason in zip(*columns, strict=True)
        ]
        yield from _lanes(process, None, "lost records", slices)


def _slices(rows: Columns, texts: list[str]) -> list[Slice]:
    times = zip(rows["start_ns"].tolist(), rows["duration_ns"].tolist(), texts, strict=True)
    return [Slice(start, start + length, text) for start, length, text in times]


def _lanes(process: int, thread: int | None, title: str, slices: list[Slice]) -> Iterator[Track]:
    for number, lane in enumerate(nested_lanes(slices)):
        yield Track(process, thread, title, number, lane)


def instants(recording: Recording) -> Iterator[Instant]:
    marks = recording.detail("marks")
    order = np.argsort(marks["time_ns"], kind="stable")
    found = recording.names.find(marks["process"], marks["name"])
    titles = {int(kind): kind.name.lower() for kind in MarkKind}
    for row in order.tolist():
        kind = int(marks["kind"][row])
        name = recording.names.texts[int(found[row])]
        title = titles.get(kind, f"mark {kind}")
        is_plain = kind in (MarkKind.MARK, MarkKind.EVENT)
        yield Instant(
            process=int(marks["process"][row]),
            thread=int(marks["thread"][row]),
            time_ns=int(marks["time_ns"][row]),
            name=name if is_plain and name else f"{title} {name}".strip(),
            value=int(marks["value"][row]),
        )


def counter_tracks(recording: Recording) -> Iterator[CounterTrack]:
    """Values that are no numbers are left out: no format can show them."""
    table = recording.detail("counters")
    table = table.where(np.isfinite(table["value"]))
    for process, rows in _by(table, "process"):
        found = recording.names.find(rows["process"], rows["name"])
        for number in np.unique(found).tolist():
            mine = rows.where(found == number)
            order = np.argsort(mine["time_ns"], kind="stable")
            yield CounterTrack(
                process, recording.names.texts[number], mine["time_ns"][order], mine["value"][order]
            )


def sampled_tracks(recording: Recording) -> Iterator[Track]:
    """The sampled stacks of each thread as slices: what stays on the stack is one slice."""
    calls = recording.calls
    for samples in thread_samples(recording):
        rows = zip(
            samples.nodes.tolist(),
            samples.time_ns.tolist(),
            samples.weight_ns.tolist(),
            strict=True,
        )
        open_slices: list[tuple[str, int]] = []
        slices: list[Slice] = []
        now = 0
        for node, time_ns, weight_ns in rows:
            start = max(now, time_ns - weight_ns)
            path = [frame.function for frame in calls.path(node)]
            same = 0
            if start == now:
                pairs = zip(path, open_slices, strict=False)
                same = next(
                    (n for n, (name, other) in enumerate(pairs) if name != other[0]),
                    min(len(path), len(open_slices)),
                )
            slices += [Slice(begin, now, name) for name, begin in open_slices[same:]]
            open_slices = open_slices[:same] + [(name, start) for name in path[same:]]
            now = max(now, time_ns)
        slices += [Slice(begin, now, name) for name, begin in open_slices]
        title = f"{thread_label(recording, samples.process, samples.thread)} (sampled)"
        ordered = sorted(slices, key=lambda item: (item.start_ns, -item.end_ns))
        yield Track(samples.process, samples.thread, title, 0, ordered)


def _by(table: Columns, column: str) -> Iterator[tuple[int, Columns]]:
    """The rows of each value of a column."""
    values = table[column]
    for value in np.unique(values).tolist():
        yield int(value), table.where(values == value)
