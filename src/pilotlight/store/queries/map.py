"""The map of ranks and steps: as many cells as a picture has, however long the job is."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from pilotlight.errors import UsageError
from pilotlight.ship.wire import WAIT_KNOWN
from pilotlight.store.queries.reader import ONE_THREAD, Reader, bounded
from pilotlight.store.schema import BLOCKS

# The steps of ranks are this near to those of the first; what is further apart is not found.
APART_NS = 120_000_000_000
MOST_CELLS = 4_000_000
Array = npt.NDArray[Any]

_RAW = f"""
SELECT rank, toUInt32(step - {{first:Int64}}) AS place, {{value}} FROM steps
WHERE tenant = {{tenant:String}} AND job = {{job:String}} AND attempt = {{attempt:Int32}}
  AND step >= {{first:Int64}} AND step < {{last:Int64}}
  AND rank >= 0 AND {bounded("steps", "start_ns")}
"""
_ROLLED = """
SELECT rank, toUInt32(block - {first:Int64}) AS place, {value} FROM {table}
WHERE tenant = {tenant:String} AND job = {job:String} AND attempt = {attempt:Int32}
  AND block >= {first:Int64} AND block < {last:Int64} AND rank >= 0
"""
_WHEN = """
SELECT min(start_ns), max(start_ns), count() FROM steps WHERE tenant = {tenant:String}
  AND job = {job:String} AND attempt = {attempt:Int32}
  AND rank = (SELECT if(countIf(role = 'rank') > 0, minIf(rank, role = 'rank'), min(rank))
    FROM ranks WHERE tenant = {tenant:String} AND job = {job:String}
    AND attempt = {attempt:Int32} AND rank >= 0) AND step >= {first:Int64} AND step < {last:Int64}
"""
# A block that lies in two parts of a table comes twice; that is no harm to a maximum or a sum.
_RAW_VALUES = {
    "longest": "toFloat32(duration_ns) AS value",
    "wait": f"toFloat32(wait_ns) AS value, bitAnd(known, {WAIT_KNOWN}) > 0 AS waits",
}
_ROLLED_VALUES = {
    "longest": "toFloat32(max_ns) AS value",
    "wait": "toFloat32(wait_ns) AS value, toUInt32(waits) AS waits",
}


@dataclass(frozen=True)
class StepMap:
    """`cells[rank, column]` in nanoseconds, not a number where nothing was measured. A column is
    `width` steps from `first` on; its edges are true to `block` steps."""

    first: int
    width: int
    block: int
    cells: npt.NDArray[np.float32]


def step_map(
    reader: Reader, job: str, attempt: int, value: str, first: int, last: int, columns: int
) -> StepMap:
    """Of the steps from `first` to before `last` the longest or the mean wait of each cell."""
    if value not in _RAW_VALUES:
        raise UsageError(f"value={value!r:.40}: one of {', '.join(_RAW_VALUES)}")
    if not 0 <= first < last < 1 << 62 or not 1 <= columns <= 4096:
        raise UsageError("first and last are steps, columns is between 1 and 4096")
    width = -(-(last - first) // columns)
    block = max((size for size in BLOCKS if size <= width), default=1)
    asked: dict[str, object] = {"job": job, "attempt": attempt}
    asked |= {"first": first // block, "last": -(-last // block)}
    if block == 1:
        from_ns, to_ns = _when(reader, asked)
        sql = _RAW.replace("{value}", _RAW_VALUES[value])
        table = reader.select_arrow(sql, **asked, from_ns=from_ns, to_ns=to_ns)
    else:
        sql = _ROLLED.replace("{table}", f"steps_x{block}")
        sql = sql.replace("{value}", _ROLLED_VALUES[value])
        table = reader.select_arrow(f"{sql} {ONE_THREAD}", **asked)
    rank = table["rank"].to_numpy()
    rows = int(rank.max(initial=-1)) + 1
    if rows * columns > MOST_CELLS:
        raise UsageError(f"{rows} ranks: ask for at most {MOST_CELLS // rows} columns")
    # Of millions of rows few lie in different blocks: their columns are looked up.
    begins = np.arange(first // block, -(-last // block)) * block
    column_of = np.clip((begins - first) // width, 0, columns - 1)
    place_of = rank.astype(np.int64) * columns + column_of[table["place"].to_numpy()]
    values = table["value"].to_numpy()
    if value == "longest":
        cells = _longest(place_of, values, rows * columns)
    else:
        cells = _mean(place_of, values, table["waits"].to_numpy(), rows * columns)
    return StepMap(first, width, block, cells.reshape(rows, columns))


def _longest(place: Array, values: Array, size: int) -> npt.NDArray[np.float32]:
    cells = np.full(size, -1, np.float32)
    np.maximum.at(cells, place, values)
    cells[cells < 0] = np.nan
    return cells


def _mean(place: Array, sums: Array, counts: Array, size: int) -> npt.NDArray[np.float32]:
    total = np.bincount(place, sums, minlength=size)
    count = np.bincount(place, counts, minlength=size)
    cells = np.full(size, np.nan, np.float32)
    np.divide(total, count, out=cells, where=count > 0, casting="unsafe")
    return cells


def _when(reader: Reader, asked: dict[str, object]) -> tuple[int, int]:
    """By the lowest rank: rows lie by time, so that the engine need not read all of a long job."""
    found = reader.select(_WHEN, **asked)
    if not found or not int(found[0][2]):
        return 0, 1 << 62
    return int(found[0][0]) - APART_NS, int(found[0][1]) + APART_NS
