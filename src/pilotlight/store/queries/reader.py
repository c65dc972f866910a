"""Who asks the store: a tenant, a time, and whether a part of the cluster was missing."""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeVar

from pilotlight.store.schema import STRETCHES_NS
from pilotlight.store.store import Parameters, Row, ShardDown, Store

if TYPE_CHECKING:
    import pyarrow as pa

T = TypeVar("T")

HOUR_NS = 3_600_000_000_000
DAY_NS = 24 * HOUR_NS
PATIENCE_NS = 60_000_000_000
_SUM_WINDOWS = 400
ONE_THREAD = "SETTINGS max_threads = 1"
"""For sums over few rows in many groups: to share them out takes the engine longer than to add."""
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
    `patience_ns`: who said nothing for this long is not heard any more.
    """

    store: Store
    tenant: str = "default"
    now_ns: int = field(default_factory=time.time_ns)
    is_partial: bool = False
    patience_ns: int = PATIENCE_NS

    def select(self, sql: str, **parameters: object) -> list[Row]:
        """`sql` says `tenant = {tenant:String}` for each table it reads."""
        return self._ask(self.store.select, sql, parameters)

    def select_arrow(self, sql: str, **parameters: object) -> pa.Table:
        """The same for many rows."""
        return self._ask(self.store.select_arrow, sql, parameters)

    def beside(self, question: Callable[[], T]) -> Future[T]:
        """Asks what does not depend on other answers beside them."""
        return self.store.beside(question)

    def keeps(self, table: str, span: Span) -> bool:
        """Whether all of the span is still in the table, which may be kept for some days only."""
        return self.store.keeps(table, span.from_ns, self.now_ns)

    def finest(self, family: str, span: Span) -> str:
        """The finest rollup of a family that still has all of the span, else the coarsest."""
        *finer, coarsest = PERIODS_NS
        return next((name for name in finer if self.keeps(f"{family}_{name}", span)), coarsest)

    def _ask(
        self, ask: Callable[[str, Parameters, Parameters], T], sql: str, parameters: Parameters
    ) -> T:
        values = {"tenant": self.tenant, **parameters}
        if not self.store.is_distributed:
            return ask(sql, values, {})
        # What a query joins is on all shards, not only on the one that has its rows.
        joins = {"distributed_product_mode": "global"}
        try:
            return ask(sql, values, {**joins, "skip_unavailable_shards": 0})
        except ShardDown:
            found = ask(sql, values, {**joins, "skip_unavailable_shards": 1})
            self.is_partial = True
            return found


def bounded(table: str, column: str = "time_ns") -> str:
    """From {from_ns} to {to_ns}, said also of the stretches of time that the table is laid out by:
    the engine does not conclude it by itself and would read a whole day."""
    width = STRETCHES_NS[table]
    return (
        f"{column} >= {{from_ns:Int64}} AND {column} < {{to_ns:Int64}} "
        f"AND intDiv({column}, {width}) >= intDiv({{from_ns:Int64}}, {width}) "
        f"AND intDiv({column}, {width}) <= intDiv({{to_ns:Int64}}, {width})"
    )


def period_for(span: Span, points: int, finest: str = "10s") -> str:
    """The finest rollup with at most `points` windows in the span, else the coarsest."""
    names = list(PERIODS_NS)
    for name in names[names.index(finest) :]:
        if span.length_ns / PERIODS_NS[name] <= points:
            return name
    return names[-1]


def grid(span: Span, points: int, finest: str) -> tuple[str, int, int]:
    """A rollup, the width of windows to draw (several of its own where they are too many), and the
    begin of the one in which the span begins: that belongs to it."""
    period = period_for(span, points, finest)
    times = -(-span.length_ns // (PERIODS_NS[period] * points))
    width_ns = PERIODS_NS[period] * max(1, times)
    return period, width_ns, span.from_ns // width_ns * width_ns


def sums_period(span: Span, finest: str) -> tuple[str, int]:
    """For one sum over the whole span, and where its windows begin: few rows count more than exact
    ends."""
    period = period_for(span, _SUM_WINDOWS, finest)
    if span.length_ns / PERIODS_NS[period] > _SUM_WINDOWS:
        return "1d", span.from_ns // DAY_NS * DAY_NS
    return period, span.from_ns // PERIODS_NS[period] * PERIODS_NS[period]
