"""What takes the time: kernels, ranges, functions, stacks and collectives."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from pilotlight.recording.schema import State
from pilotlight.ship.frame import split_line, with_line
from pilotlight.ship.wire import LAUNCHED
from pilotlight.store.queries.reader import HOUR_NS, PERIODS_NS, Reader, Span, period_for
from pilotlight.store.queries.texts import stack_texts, texts
from pilotlight.store.store import Row

# windows.kind
RANGE, SAMPLE, GC, STEP, ACTIVITY, COLLECTIVE = 1, 2, 3, 4, 5, 6
SHORT_NS = 600_000_000_000
LAUNCHED_NS = 60_000_000_000
_WORK = ("kernel", "memcpy", "memset", "graph")
ACTIVITIES = {1: "kernel", 2: "memcpy", 3: "memset", 4: "sync", 5: "graph", 6: "overhead"}


@dataclass(frozen=True)
class Hot:
    """A name with its time over all ranks in the span; `kind` says of what."""

    name: str
    kind: str
    count: int
    total_ns: int
    mean_ns: int
    min_ns: int
    max_ns: int
    ratio: float


@dataclass(frozen=True)
class StackTime:
    """Frames from the outermost to the innermost, as `function (file:line)`."""

    frames: tuple[str, ...]
    state: str
    total_ns: int


@dataclass(frozen=True)
class CollectiveRow:
    """`wait_ns` is how long ranks waited for others, as far as it is known; no rate follows where
    that is all that is told."""

    operation: str
    group: str
    ranks: int
    count: int
    total_ns: int
    mean_ns: int
    max_ns: int
    wait_ns: int
    bytes: int
    gigabytes_per_s: float | None


def kernels(reader: Reader, job: str, span: Span, limit: int = 50) -> list[Hot]:
    """What ran on the devices."""
    return _hot(reader, job, ACTIVITY, span, limit)


def ranges(reader: Reader, job: str, span: Span, limit: int = 50) -> list[Hot]:
    """Annotated ranges, phases, modules."""
    return _hot(reader, job, RANGE, span, limit)


def stacks(
    reader: Reader, job: str, span: Span, rank: int | None = None, limit: int = 2000
) -> list[StackTime]:
    """Python stacks by the time that samples stand for, most first. By rank only for the last
    three days."""
    return [
        StackTime(tuple(text.split("\n")), State(state).name.lower(), int(total))
        for text, state, total in _stacks(reader, job, SAMPLE, span, rank, limit)
    ]


def rank_stacks(
    reader: Reader, job: str, span: Span, ranks: Sequence[int]
) -> dict[int, list[tuple[tuple[str, ...], int]]]:
    """By rank its Python stacks with their time, whatever their threads did."""
    rows = reader.select(
        "SELECT w.rank, w.name, sum(w.total_ns) FROM windows AS w "
        "WHERE w.tenant = {tenant:String} AND w.job = {job:String} AND w.kind = {kind:UInt8} "
        "AND w.time_ns >= {from_ns:Int64} AND w.time_ns < {to_ns:Int64} "
        "AND has({ranks:Array(Int32)}, w.rank) GROUP BY w.rank, w.name",
        job=job,
        kind=SAMPLE,
        from_ns=span.from_ns,
        to_ns=span.to_ns,
        ranks=list(ranks),
    )
    text_of = stack_texts(reader.select, (name for _, name, _ in rows))
    found: dict[int, list[tuple[tuple[str, ...], int]]] = {}
    for rank, name, total in rows:
        if text := text_of.get(name):
            found.setdefault(int(rank), []).append((tuple(text.split("\n")), int(total)))
    return found


def device_stacks(
    reader: Reader, job: str, span: Span, rank: int | None = None, limit: int = 2000
) -> list[StackTime]:
    """Device time by what launched it: Python frames, the innermost range, the kernel. Without
    agents that tell it, kernels alone; `state` is the kind of the work."""
    found = [
        StackTime(tuple(text.split("\n")), ACTIVITIES.get(int(state), "other"), int(total))
        for text, state, total in _stacks(reader, job, LAUNCHED, span, rank, limit)
    ]
    if found:
        return found
    alone = _hot(reader, job, ACTIVITY, span, limit, rank)
    return [StackTime((one.name,), one.kind, one.total_ns) for one in alone if one.kind in _WORK]


def _stacks(
    reader: Reader, job: str, kind: int, span: Span, rank: int | None, limit: int
) -> list[Row]:
    table, from_ns = windows_for(reader, kind, span, rank)
    rows = reader.select(
        f"SELECT w.name, w.state, sum(w.total_ns) AS spent FROM {table} AS w "
        "WHERE w.tenant = {tenant:String} AND w.job = {job:String} AND w.kind = {kind:UInt8} "
        "AND w.time_ns >= {from_ns:Int64} AND w.time_ns < {to_ns:Int64}"
        + ("" if rank is None else " AND w.rank = {rank:Int32}")
        + " GROUP BY w.name, w.state ORDER BY spent DESC LIMIT {limit:UInt32}",
        job=job,
        kind=kind,
        from_ns=from_ns,
        to_ns=span.to_ns,
        limit=limit,
        rank=-1 if rank is None else rank,
    )
    text_of = stack_texts(reader.select, (row[0] for row in rows))
    return [(text_of[row[0]], *row[1:]) for row in rows if row[0] in text_of]


def functions(reader: Reader, job: str, span: Span, limit: int = 50) -> list[Hot]:
    """Python functions by the time they ran themselves, from samples, each with its hottest
    line."""
    lines: dict[str, Counter[int]] = {}
    for stack in stacks(reader, job, span, limit=5000):
        if stack.state == "running":
            function, line = split_line(stack.frames[-1])
            lines.setdefault(function, Counter())[line] += stack.total_ns
    whole = sum(times.total() for times in lines.values()) or 1
    most = sorted(lines.items(), key=lambda item: -item[1].total())[:limit]
    return [
        Hot(
            with_line(function, times.most_common(1)[0][0]),
            "function", 0, times.total(), 0, 0, 0, times.total() / whole,
        )
        for function, times in most
    ]  # fmt: skip


def collectives(reader: Reader, job: str, span: Span, limit: int = 50) -> list[CollectiveRow]:
    table, from_ns = _collectives(reader, span)
    found = reader.select(
        "SELECT operation, group, uniqExact(rank), sum(c.count), sum(c.total_ns) AS spent, "
        f"max(c.max_ns), sum(c.wait_ns), sum(c.bytes) FROM {table} AS c "
        "WHERE tenant = {tenant:String} AND job = {job:String} AND time_ns >= {from_ns:Int64} "
        "AND time_ns < {to_ns:Int64} GROUP BY operation, group "
        "ORDER BY spent DESC LIMIT {limit:UInt32}",
        job=job,
        from_ns=from_ns,
        to_ns=span.to_ns,
        limit=limit,
    )
    return [
        CollectiveRow(
            operation=operation,
            group=group,
            ranks=int(ranks),
            count=int(count),
            total_ns=int(total),
            mean_ns=int(total) // max(1, int(count)),
            max_ns=int(longest),
            wait_ns=int(wait),
            bytes=int(size),
            gigabytes_per_s=int(size) / (total - wait) if total > wait else None,
        )
        for operation, group, ranks, count, total, longest, wait, size in found
    ]


def _hot(
    reader: Reader, job: str, kind: int, span: Span, limit: int, rank: int | None = None
) -> list[Hot]:
    table, from_ns = windows_for(reader, kind, span, rank)
    found = reader.select(
        "SELECT w.name, w.state, sum(w.count), sum(w.total_ns) AS spent, "
        "min(w.min_ns), max(w.max_ns), sum(spent) OVER () "
        f"FROM {table} AS w "
        "WHERE w.tenant = {tenant:String} AND w.job = {job:String} AND w.kind = {kind:UInt8} "
        "AND w.time_ns >= {from_ns:Int64} AND w.time_ns < {to_ns:Int64} "
        + ("" if rank is None else "AND w.rank = {rank:Int32} ")
        + "GROUP BY w.name, w.state ORDER BY spent DESC LIMIT {limit:UInt32}",
        job=job,
        kind=kind,
        from_ns=from_ns,
        to_ns=span.to_ns,
        limit=limit,
        rank=-1 if rank is None else rank,
    )
    text_of = texts(reader.select, (row[0] for row in found))
    return [
        Hot(
            name=text_of.get(name) or f"?{name:016x}",
            kind=ACTIVITIES.get(int(state), "other") if kind == ACTIVITY else "range",
            count=int(count),
            total_ns=int(total),
            mean_ns=int(total) // max(1, int(count)),
            min_ns=int(shortest),
            max_ns=int(longest),
            ratio=int(total) / max(1, int(whole)),
        )
        for name, state, count, total, shortest, longest, whole in found
    ]


def windows_for(reader: Reader, kind: int, span: Span, rank: int | None) -> tuple[str, int]:
    """The table to ask, and the begin of its window in which the span begins: that belongs to it.
    Single ranks and short spans are in the finest alone."""
    is_fine = span.length_ns <= SHORT_NS and reader.keeps("windows", span)
    if rank is not None or is_fine:
        width_ns = LAUNCHED_NS if kind == LAUNCHED else PERIODS_NS["10s"]
        return "windows", span.from_ns // width_ns * width_ns
    period = period_for(span, 600, "5m" if reader.keeps("windows_5m", span) else "1h")
    return f"windows_{period}", span.from_ns // PERIODS_NS[period] * PERIODS_NS[period]


def _collectives(reader: Reader, span: Span) -> tuple[str, int]:
    """As `windows_for`."""
    is_fine = span.length_ns <= 6 * HOUR_NS and reader.keeps("collectives", span)
    table, period = ("collectives", "10s") if is_fine else ("collectives_5m", "5m")
    return table, span.from_ns // PERIODS_NS[period] * PERIODS_NS[period]
