"""Who asks the store: a tenant, a time, and whether a part of the cluster was missing."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field

from pilotlight.store.store import Row, ShardDown, Store

HOUR_NS = 3_600_000_000_000
PERIODS_NS = {"10s": 10_000_000_000, "5m": 300_000_000_000, "1h": HOUR_NS}


@dataclass(frozen=True)
class Span:
    """From (included) to (not included), on the collector's clock."""

    from_ns: int
    to_ns: int

    @property
    def length_ns(self) -> int:
        return self.to_ns - self.from_ns


def last(length_ns: int, now_ns: int | None = None) -> Span:
    now_ns = time.time_ns() if now_ns is None else now_ns
    return Span(now_ns - length_ns, now_ns + PERIODS_NS["10s"])


@dataclass
class Reader:
    """One question's view of the store: every query is of one tenant alone.

    `is_partial` becomes true when a shard did not answer: the numbers are then too small.
    """

    store: Store
    tenant: str = "default"
    now_ns: int = field(default_factory=time.time_ns)
    is_partial: bool = False

    def select(self, sql: str, **parameters: object) -> list[Row]:
        """`sql` says `tenant = {tenant:String}` for each table it reads."""
        values: Mapping[str, object] = {"tenant": self.tenant, **parameters}
        if not self.store.is_distributed:
            return self.store.select(sql, values)
        try:
            return self.store.select(sql, values, {"skip_unavailable_shards": 0})
        except ShardDown:
            found = self.store.select(sql, values, {"skip_unavailable_shards": 1})
            self.is_partial = True
            return found


def period_for(span: Span, points: int, finest: str = "10s", kept_ns: int = 0) -> str:
    """The finest rollup with at most `points` windows in the span, and whose rows are still kept:
    `kept_ns` is how long ago the oldest row of the finest one may be."""
    names = list(PERIODS_NS)
    for name in names[names.index(finest) :]:
        if span.length_ns / PERIODS_NS[name] <= points:
            return name
    return names[-1]
