"""A table of the store as data: its columns, its order, how long rows stay."""

from __future__ import annotations

from dataclasses import dataclass

LONGEST_DAYS = 36_500

_ID = "LowCardinality(String)"
_TIME = "Int64 CODEC(DoubleDelta, ZSTD(1))"
_SPAN = "Int64 CODEC(T64, ZSTD(1))"
_COUNT = "UInt64 CODEC(T64, ZSTD(1))"
_HASH = "UInt64 CODEC(ZSTD(1))"
_SUM = "SimpleAggregateFunction(sum, Int64) CODEC(T64, ZSTD(1))"
_ADD = "SimpleAggregateFunction(sum, UInt64) CODEC(T64, ZSTD(1))"
_MIN = "SimpleAggregateFunction(min, Int64) CODEC(T64, ZSTD(1))"
_MAX = "SimpleAggregateFunction(max, Int64) CODEC(T64, ZSTD(1))"
_FSUM = "SimpleAggregateFunction(sum, Float64) CODEC(ZSTD(1))"
_FMIN = "SimpleAggregateFunction(min, Float64) CODEC(ZSTD(1))"
_FMAX = "SimpleAggregateFunction(max, Float64) CODEC(ZSTD(1))"


@dataclass(frozen=True)
class StoredTable:
    """`engine` without arguments of replication; `time` is what rows age and are divided by;
    `order` has columns and expressions; `granule` is how many rows are read to find one."""

    name: str
    columns: tuple[tuple[str, str], ...]
    order: tuple[str, ...]
    engine: str = "MergeTree"
    version: str = ""
    time: str = ""
    partition: str = "toYYYYMMDD"
    keep_days: int = 0
    granule: int = 8192
    is_public: bool = True

    @property
    def column_names(self) -> tuple[str, ...]:
        return tuple(name for name, _ in self.columns)


def columns(text: str) -> tuple[tuple[str, str], ...]:
    """From `name kind, name kind`."""
    kinds = {
        "id": _ID,
        "text": "String CODEC(ZSTD(1))",
        "texts": "Array(String)",
        "time": _TIME,
        "span": _SPAN,
        "count": _COUNT,
        "hash": _HASH,
        "i32": "Int32",
        "i64": "Int64 CODEC(Delta, ZSTD(1))",
        "u8": "UInt8",
        "u32": "UInt32",
        "u16": "UInt16 CODEC(T64, ZSTD(1))",
        "f64": "Float64 CODEC(ZSTD(1))",
        "sum": _SUM,
        "add": _ADD,
        "min": _MIN,
        "max": _MAX,
        "fsum": _FSUM,
        "fmin": _FMIN,
        "fmax": _FMAX,
        "ranks": "Array(Int32)",
    }
    pairs = (part.split() for part in text.split(","))
    return tuple((name, kinds[kind]) for name, kind in pairs)
