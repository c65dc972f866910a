"""Reads Kineto and other Chrome JSON traces: old and new schemas, CUDA, ROCm and CPU only."""

from __future__ import annotations

import re
from collections import Counter as Tally
from collections.abc import Callable, Iterator
from itertools import compress
from operator import attrgetter
from typing import Any

import numpy as np

from pilotlight.errors import FormatError
from pilotlight.trace import chrome
from pilotlight.trace.eventlist import EventList
from pilotlight.trace.span_table import KIND_OF_CATEGORY, SpanTable, nanoseconds
from pilotlight.trace.step import steps_of
from pilotlight.trace.trace import NONE, Bool, Int64, Kind, Trace

_RANK_IN_NAME = re.compile(r"(?:rank|worker)[-_.]?(\d{1,6})(?!\d)", re.IGNORECASE)
_NAME, _CATEGORY = attrgetter("name"), attrgetter("cat")
_PROCESS, _THREAD = attrgetter("pid"), attrgetter("tid")
_START, _DURATION, _ARGUMENTS = attrgetter("ts"), attrgetter("dur"), attrgetter("args")
_CORRELATION, _BYTES = attrgetter("correlation"), attrgetter("bytes")
_HALF = 1 << 62
_NO_ARGUMENTS = chrome.Arguments()


def read_kineto(blocks: Iterator[bytes], source: str) -> Trace:
    """The trace of one file; raises FormatError if there is nothing to use in it."""
    events = EventList(source, chrome.event_decoder(), chrome.document_decoder())
    build = _Build(source)
    for piece in events.pieces(blocks):
        build.add(piece)
    trace = build.finish(events.metadata)
    problems = (*events.problems, *trace.problems)
    if not len(trace.spans):
        first = f" ({problems[0].place}: {problems[0].text})" if problems else ""
        raise FormatError(f"{source}: no usable event in it{first}")
    return Trace(**{**trace.__dict__, "problems": problems})


class _Kinds(dict[Any, int]):
    def __missing__(self, key: Any) -> int:
        return Kind.OTHER


class _Lanes(dict[tuple[Any, Any], int]):
    """(pid, tid) as the file has them to lanes: some files write 7 and "7" for one thread."""

    def __init__(self, table: SpanTable) -> None:
        super().__init__()
        self._lanes = table.lanes

    def __missing__(self, key: tuple[Any, Any]) -> int:
        number = self._lanes[_lane_key(*key)]
        if len(self) < self._lanes.limit:
            self[key] = number
        return number


def _of_kinds(*kinds: Kind) -> Bool:
    return np.isin(np.arange(256), kinds)


_WITH_CORRELATION = _of_kinds(Kind.RUNTIME, Kind.KERNEL, Kind.MEMCPY, Kind.MEMSET, Kind.SYNC)
_WITH_BYTES = _of_kinds(Kind.MEMCPY, Kind.MEMSET)
_KINDS = _Kinds({text: int(kind) for text, kind in KIND_OF_CATEGORY.items()})


class _Build:
    def __init__(self, source: str) -> None:
        self.source = source
        self.table = SpanTable(source)
        self.skipped: Tally[str] = Tally()
        self.lane_names: dict[tuple[str, str], str] = {}
        self._open: dict[tuple[str, str], list[chrome.Begin]] = {}
        self._lane_of = _Lanes(self.table)
        self._handlers: dict[type, Callable[[Any], None]] = {
            chrome.Instant: self._instant,
            chrome.Counter: self._counter,
            chrome.Metadata: self._metadata,
        }

    def add(self, events: list[Any]) -> None:
        counts = Tally(map(type, events))
        for kind, count in counts.items():
            if kind in chrome.UNUSED:
                self.skipped[chrome.UNUSED[kind]] += count
        if counts[chrome.Complete] == len(events):
            self._add_spans(events)
            return
        spans = [event for event in events if type(event) is chrome.Complete]
        for kind, handle in self._handlers.items():
            if counts[kind]:
                for event in events:
                    if type(event) is kind:
                        handle(event)
        if counts[chrome.Begin] or counts[chrome.End]:
            self._match(events, spans)
        if spans:
            self._add_spans(spans)

    def _match(self, events: list[Any], spans: list[chrome.Complete]) -> None:
        for event in events:
            if type(event) is chrome.Begin:
                self._open.setdefault(_lane_key(event.pid, event.tid), []).append(event)
            elif type(event) is chrome.End:
                self._close(event, spans)

    def _add_spans(self, spans: list[chrome.Complete]) -> None:
        count = len(spans)
        kind = np.fromiter(map(_KINDS.__getitem__, map(_CATEGORY, spans)), np.uint8, count)
        lanes = zip(map(_PROCESS, spans), map(_THREAD, spans), strict=True)
        self.table.add(
            nanoseconds(np.fromiter(map(_START, spans), np.float64, count)),
            nanoseconds(np.fromiter(map(_DURATION, spans), np.float64, count)),
            kind,
            np.fromiter(map(self.table.names.__getitem__, map(_NAME, spans)), np.uint32, count),
            np.fromiter(map(self._lane_of.__getitem__, lanes), np.uint32, count),
            _arguments(spans, _WITH_CORRELATION[kind], _CORRELATION),
            _arguments(spans, _WITH_BYTES[kind], _BYTES),
        )

    def _close(self, event: chrome.End, spans: list[chrome.Complete]) -> None:
        stack = self._open.get(_lane_key(event.pid, event.tid))
        if not stack:
            self.table.dropped["ends without a begin"] += 1
            return
        begin = stack.pop()
        duration = event.ts - begin.ts
        where = (begin.name, begin.cat, begin.pid, begin.tid)
        spans.append(chrome.Complete(*where, begin.ts, duration, begin.args))

    def _instant(self, event: chrome.Instant) -> None:
        memory = event.args
        if memory is None or memory.allocated is None:
            self.skipped["i"] += 1
            return
        self.table.add_counter(event.ts, f"allocated device {memory.device}", memory.allocated)

    def _counter(self, event: chrome.Counter) -> None:
        for key, value in (event.args or {}).items():
            if isinstance(value, (int, float)) and abs(value) < 1e300:
                self.table.add_counter(event.ts, f"{event.name} {key}", float(value))
            else:
                self.table.dropped["counter values that are no numbers"] += 1

    def _metadata(self, event: chrome.Metadata) -> None:
        text = (event.args or {}).get("name")
        if event.name == "thread_name" and isinstance(text, str):
            self.lane_names[_lane_key(event.pid, event.tid)] = text

    def finish(self, metadata: dict[str, Any]) -> Trace:
        unclosed = sum(len(stack) for stack in self._open.values())
        if unclosed:
            self.table.dropped["begins without an end"] += unclosed
        spans = self.table.spans()
        counters = self.table.counters()
        base_ns = metadata.get("baseTimeNanoseconds")
        if isinstance(base_ns, int) and 0 < base_ns < _HALF and (spans.start_ns < _HALF).all():
            spans.start_ns[:] += base_ns
            counters.time_ns[:] += base_ns
        names = tuple(str(name) for name in self.table.names)
        spans.kind[_gc_rows(names, spans.name)] = Kind.GC
        info = metadata.get("distributedInfo")
        info = info if isinstance(info, dict) else {}
        return Trace(
            source=self.source,
            format="kineto",
            rank=_rank(info, self.source),
            world_size=_count(info.get("world_size")),
            devices=_devices(metadata.get("deviceProperties")),
            names=names,
            lanes=self.table.lane_table(self.lane_names),
            spans=spans,
            counters=counters,
            steps=steps_of(names, spans),
            problems=tuple(self.table.problems()),
            skipped=dict(self.skipped),
        )


def _gc_rows(names: tuple[str, ...], name: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    collects = np.fromiter((text.startswith("Python GC") for text in names), np.bool_, len(names))
    mask: np.ndarray[Any, Any] = collects[name]
    return mask


def _lane_key(pid: Any, tid: Any) -> tuple[str, str]:
    return str(pid), str(tid)


def _arguments(
    spans: list[chrome.Complete], wanted: Bool, get: Callable[[chrome.Arguments], Any]
) -> Int64:
    """A column from the arguments of some spans; the others have none of it."""
    column = np.full(len(spans), NONE, np.int64)
    chosen = map(_ARGUMENTS, compress(spans, wanted.tolist()))
    values = [get(a or _NO_ARGUMENTS) for a in chosen]
    try:
        column[wanted] = values
    except (ValueError, OverflowError, TypeError):
        column[wanted] = [_id(value) for value in values]
    return column


def _id(value: Any) -> int:
    try:
        number = int(value)
    except (ValueError, OverflowError, TypeError):
        return NONE
    return number if NONE < number < (1 << 63) else NONE


def _count(value: Any) -> int | None:
    return value if isinstance(value, int) and 0 < value < (1 << 31) else None


def _rank(info: dict[str, Any], source: str) -> int:
    rank = info.get("rank")
    if isinstance(rank, int) and 0 <= rank < (1 << 31):
        return rank
    match = _RANK_IN_NAME.search(source.rsplit("/", 1)[-1])
    return int(match.group(1)) if match else NONE


def _devices(properties: Any) -> tuple[str, ...]:
    if not isinstance(properties, list):
        return ()
    return tuple(str(p.get("name", "")) for p in properties[:1024] if isinstance(p, dict))
