"""What the steps of a job are made of, as the adapters of frameworks tell it."""

from __future__ import annotations

from dataclasses import dataclass

from pilotlight.recording.schema import SpanKind
from pilotlight.store.queries.hot import RANGE
from pilotlight.store.queries.reader import HOUR_NS, PERIODS_NS, Reader, Span, period_for
from pilotlight.store.queries.texts import texts

OTHER = "other"


@dataclass(frozen=True)
class Phases:
    """Nanoseconds over all ranks a window, by phase; `other` is step time that none covers."""

    period_ns: int
    time_ns: list[int]
    total_ns: list[int]
    phases_ns: dict[str, list[int]]


def phases(reader: Reader, job: str, span: Span, points: int = 600) -> Phases:
    """Empty where no adapter told any. Of more than two hours it is told by 5 min."""
    is_fine = span.length_ns <= 2 * HOUR_NS and reader.keeps("windows", span)
    rolled_up = "5m" if reader.keeps("windows_5m", span) else "1h"
    period = period_for(span, points, "10s" if is_fine else rolled_up)
    table = "windows" if period == "10s" else f"windows_{period}"
    width_ns = PERIODS_NS[period]
    bounds = {"job": job, "from_ns": span.from_ns // width_ns * width_ns, "to_ns": span.to_ns}
    told = reader.select(
        # On the collector's clock a window begins some microseconds beside the round time.
        "SELECT intDiv(w.time_ns + intDiv({width_ns:Int64}, 2), {width_ns:Int64}) "
        f"* {{width_ns:Int64}} AS window_ns, w.name, sum(w.total_ns) FROM {table} AS w "
        "WHERE w.tenant = {tenant:String} AND w.job = {job:String} AND w.kind = {kind:UInt8} "
        "AND w.state = {state:UInt8} "
        "AND w.time_ns >= {from_ns:Int64} AND w.time_ns < {to_ns:Int64} "
        "GROUP BY window_ns, w.name",
        **bounds,
        width_ns=width_ns,
        kind=RANGE,
        state=int(SpanKind.PHASE),
    )
    if not told:
        return Phases(width_ns, [], [], {})
    steps = reader.select(
        f"SELECT s.time_ns AS t, sum(s.total_ns) FROM job_steps_{period} AS s "
        "WHERE tenant = {tenant:String} AND job = {job:String} AND s.time_ns >= {from_ns:Int64} "
        "AND s.time_ns < {to_ns:Int64} GROUP BY t ORDER BY t",
        **bounds,
    )
    text_of = texts(reader.select, (name for _, name, _ in told))
    place = {int(time_ns): number for number, (time_ns, _) in enumerate(steps)}
    total = [int(total_ns) for _, total_ns in steps]
    found: dict[str, list[int]] = {}
    for time_ns, name, total_ns in told:
        number = place.get(int(time_ns))
        if number is not None and name in text_of:
            found.setdefault(text_of[name], [0] * len(total))[number] += int(total_ns)
    covered = [sum(column) for column in zip(*found.values(), strict=True)] or [0] * len(total)
    found[OTHER] = [max(0, whole - part) for whole, part in zip(total, covered, strict=True)]
    return Phases(width_ns, list(place), total, found)
