"""The map of ranks and steps: times of the steps, or any counter while they ran."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from pilotlight.errors import UsageError
from pilotlight.store import queries
from pilotlight.store.queries import Reader
from pilotlight.store.queries.map import MOST_CELLS
from pilotlight.store.queries.reader import PERIODS_NS, bounded
from pilotlight.trace.trace import Float64, Int64
from pilotlight.web.table import stream

COLUMNS_LIMIT = 4096
FINE_NS = 6 * 3_600_000_000_000
VALUES = ("time", "lateness", "wait")
COUNTER = "counter:"
Cells = npt.NDArray[np.floating[Any]]

_ATTEMPT = """
SELECT max(attempt) FROM ranks WHERE tenant = {tenant:String} AND job = {job:String}
"""
_EDGES = """
SELECT intDiv(step - {first:Int64}, {width:Int64}) AS c, min(start_ns) AS begin,
  max(start_ns + duration_ns) AS end
FROM steps WHERE tenant = {tenant:String} AND job = {job:String} AND attempt = {attempt:Int32}
  AND step >= {first:Int64} AND step < {last:Int64} AND rank = {rank:Int32} GROUP BY c
"""
# Of the rank itself or of its GPU; of its node, which many ranks share.
_COUNTERS = """
SELECT c.rank AS rank, c.time_ns AS t, sum(c.sum) / greatest(sum(c.count), 1) AS v
FROM {table} AS c
WHERE c.tenant = {{tenant:String}} AND c.job = {{job:String}} AND c.name = {{name:String}}
  AND c.rank >= 0 AND {bounds}
GROUP BY rank, t
UNION ALL
SELECT r.rank AS rank, n.t AS t, n.v AS v FROM (
  SELECT node, c.time_ns AS t, sum(c.sum) / greatest(sum(c.count), 1) AS v FROM {table} AS c
  WHERE c.tenant = {{tenant:String}} AND c.name = {{name:String}} AND c.rank < 0 AND c.gpu < 0
    AND {bounds} GROUP BY node, t) AS n
INNER JOIN (
  SELECT DISTINCT node, rank FROM ranks WHERE tenant = {{tenant:String}} AND job = {{job:String}}
    AND attempt = {{attempt:Int32}} AND rank >= 0) AS r ON r.node = n.node
"""


@dataclass(frozen=True)
class Cut:
    """Steps from `first` to `last` (not included) in columns of `width` steps."""

    job: str
    attempt: int
    first: int
    last: int
    columns: int

    @property
    def width(self) -> int:
        return -(-(self.last - self.first) // self.columns)


def heat(reader: Reader, name: str, value: str, first: int, last: int, columns: int) -> bytes:
    """An Arrow stream with one column, the map row by row: nanoseconds or the counter's unit, not
    a number where nothing was measured. Rows are the ranks from 0 on; each has `columns` cells."""
    counter = value.removeprefix(COUNTER) if value.startswith(COUNTER) else ""
    if value not in VALUES and not counter:
        raise UsageError(f"value={value[:40]!r}: one of {', '.join(VALUES)} or {COUNTER}NAME")
    if not 0 <= first < last or not 1 <= columns <= COLUMNS_LIMIT:
        raise UsageError(f"first and last are steps, columns is between 1 and {COLUMNS_LIMIT}")
    attempt = int(reader.select(_ATTEMPT, job=name)[0][0])
    cut = Cut(name, attempt, first, last, columns)
    cells = _counted(reader, cut, counter) if counter else _timed(reader, cut, value)
    return stream({"value": cells.astype(np.float32, copy=False).reshape(-1)})


def _timed(reader: Reader, cut: Cut, value: str) -> Cells:
    found = queries.step_map(
        reader,
        cut.job,
        cut.attempt,
        "longest" if value == "time" else "wait",
        cut.first,
        cut.last,
        cut.columns,
    )
    return lateness(found.cells) if value == "lateness" and found.cells.size else found.cells


def _empty(rank: Int64, cut: Cut) -> Float64:
    rows = int(rank.max()) + 1 if rank.size else 0
    if rows * cut.columns > MOST_CELLS:
        raise UsageError(f"{rows} ranks: ask for at most {MOST_CELLS // rows} columns")
    return np.full((rows, cut.columns), np.nan)


def lateness(wait: Cells) -> Cells:
    """Who waits least came last: how much later than the first. One rank alone tells nothing."""
    late: Cells = np.fmax.reduce(wait, axis=0) - wait
    late[:, np.isfinite(wait).sum(axis=0) < 2] = np.nan
    return late


def _counted(reader: Reader, cut: Cut, counter: str) -> Float64:
    """Counters have a time and no step: the first rank's steps say which time a column is."""
    first_rank = int(
        reader.select(
            "SELECT if(countIf(role = 'rank') > 0, minIf(rank, role = 'rank'), min(rank)) "
            "FROM ranks WHERE tenant = {tenant:String} AND job = {job:String} "
            "AND attempt = {attempt:Int32} AND role IN ('rank', 'main')",
            job=cut.job,
            attempt=cut.attempt,
        )[0][0]
    )
    bounds = {"job": cut.job, "attempt": cut.attempt, "first": cut.first, "last": cut.last}
    edges = reader.select(_EDGES, **bounds, width=cut.width, rank=first_rank)
    if not edges:
        return _empty(np.empty(0, np.int64), cut)
    column, begin_ns, end_ns = (np.array(values, np.int64) for values in zip(*edges, strict=True))
    is_fine = int(end_ns.max() - begin_ns.min()) <= FINE_NS
    period_ns = PERIODS_NS["10s" if is_fine else "5m"]
    source = "counters" if is_fine else "counters_5m"
    table = reader.store.select_arrow(
        _COUNTERS.format(table=source, bounds=bounded(source, "c.time_ns")),
        {
            "tenant": reader.tenant,
            "job": cut.job,
            "attempt": cut.attempt,
            "name": counter,
            "from_ns": int(begin_ns.min()) - period_ns,
            "to_ns": int(end_ns.max()),
        },
    )
    rank, time_ns = table["rank"].to_numpy(), table["t"].to_numpy()
    cells = _empty(rank, cut)
    if rank.size:
        means = over(rank, time_ns, table["v"].to_numpy(), period_ns, begin_ns, end_ns)
        cells[:, column] = means
    return cells


def over(
    rank: Int64, time_ns: Int64, value: Float64, period_ns: int, begin_ns: Int64, end_ns: Int64
) -> Float64:
    """By rank and stretch of time the mean of the windows that touch it."""
    windows, place = np.unique(time_ns, return_inverse=True)
    rows = int(rank.max()) + 1
    sums = np.zeros((rows, windows.size + 1))
    counts = np.zeros((rows, windows.size + 1))
    np.add.at(sums, (rank, place + 1), value)
    np.add.at(counts, (rank, place + 1), 1)
    sums, counts = sums.cumsum(axis=1), counts.cumsum(axis=1)
    low = np.searchsorted(windows + period_ns, begin_ns, side="right")
    high = np.maximum(np.searchsorted(windows, end_ns, side="left"), low)
    count = counts[:, high] - counts[:, low]
    with np.errstate(invalid="ignore", divide="ignore"):
        means: Float64 = (sums[:, high] - sums[:, low]) / count
    return means
