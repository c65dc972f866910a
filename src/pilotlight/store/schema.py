"""The tables of the store as data: what docs/store.md says, for the writer and for readers.

All times are nanoseconds since 1970 on the collector's clock. A name that ends in `_10s`, `_5m`,
`_1h`, `_1d`, `_x4` to `_x4096`, `_totals` or `_latest` is a rollup (rollups.py). An order with a
stretch of time in it lays the places of a stretch side by side: a minute of all ranks is a few
blocks on the disk, and so is an hour of one rank.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from pilotlight.ship.wire import PARTS as PARTS

SCHEMA_VERSION = 2
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
    `order` has columns and expressions."""

    name: str
    columns: tuple[tuple[str, str], ...]
    order: tuple[str, ...]
    engine: str = "MergeTree"
    version: str = ""
    time: str = ""
    partition: str = "toYYYYMMDD"
    keep_days: int = 0
    is_public: bool = True

    @property
    def column_names(self) -> tuple[str, ...]:
        return tuple(name for name, _ in self.columns)


def _columns(text: str) -> tuple[tuple[str, str], ...]:
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


def _stretch(column: str, seconds: int) -> str:
    return f"intDiv({column}, {seconds * 10**9})"


BLOCKS: Mapping[int, int] = MappingProxyType(
    {4: 14, 16: 60, 64: 120, 256: 400, 1024: 400, 4096: 800}
)
"""Steps of a rank added up to blocks of so many, kept so many days: for the map of all ranks."""

_WHO = "tenant id, job id, attempt i32"
_PLACED = ("tenant", "name")
_PARTS = ", ".join(f"{part} span" for part in PARTS)
_PART_SUMS = ", ".join(f"{part} sum" for part in PARTS)
_STEP_SUMS = f"count add, total_ns sum, min_ns min, max_ns max, {_PART_SUMS}"
_WINDOW_SUMS = "count add, total_ns sum, min_ns min, max_ns max"
_COLLECTIVE_SUMS = "count add, total_ns sum, wait_ns sum, bytes sum, max_ns max"
_COUNTER_SUMS = "count add, sum fsum, min fmin, max fmax"

_LIST = (
    StoredTable(
        "steps",
        _columns(
            f"{_WHO}, node id, rank i32, step i64, start_ns time, duration_ns span, {_PARTS}, "
            "wait_ns span, known u16"
        ),
        ("tenant", "job", _stretch("start_ns", 60), "rank", "start_ns"),
        time="start_ns",
        keep_days=14,
    ),
    *(
        StoredTable(
            f"steps_x{steps}",
            _columns(
                f"{_WHO}, rank i32, block i64, time_ns time, count add, waits add, wait_ns sum, "
                "max_ns max"
            ),
            ("tenant", "job", "attempt", "block", "rank", "time_ns"),
            engine="AggregatingMergeTree",
            time="time_ns",
            partition="toYYYYMM",
            keep_days=days,
        )
        for steps, days in BLOCKS.items()
    ),
    *(
        StoredTable(
            f"steps_{name}",
            _columns(f"{_WHO}, node id, rank i32, time_ns time, {_STEP_SUMS}"),
            ("tenant", "job", "attempt", "time_ns", "rank", "node"),
            engine="AggregatingMergeTree",
            time="time_ns",
            partition=partition,
            keep_days=days,
        )
        for name, partition, days in (
            ("10s", "toYYYYMMDD", 3),
            ("5m", "toYYYYMM", 60),
            ("1h", "toYYYYMM", 400),
            ("1d", "toYYYYMM", 800),
        )
    ),
    *(
        StoredTable(
            f"job_steps_{name}",
            _columns(f"{_WHO}, time_ns time, {_STEP_SUMS}"),
            ("tenant", "job", "attempt", "time_ns"),
            engine="AggregatingMergeTree",
            time="time_ns",
            partition=partition,
            keep_days=days,
        )
        for name, partition, days in (
            ("10s", "toYYYYMMDD", 14),
            ("5m", "toYYYYMM", 400),
            ("1h", "toYYYYMM", 400),
            ("1d", "toYYYYMM", 800),
        )
    ),
    StoredTable(
        "job_totals",
        _columns(f"{_WHO}, {_STEP_SUMS}, first_step min, last_step max, first_ns min, last_ns max"),
        ("tenant", "job", "attempt"),
        engine="AggregatingMergeTree",
        time="last_ns",
        partition="",
        keep_days=800,
    ),
    *(
        StoredTable(
            f"step_histogram_{name}",
            _columns(f"{_WHO}, time_ns time, bucket u16, count add"),
            ("tenant", "job", "attempt", "time_ns", "bucket"),
            engine="AggregatingMergeTree",
            time="time_ns",
            partition="toYYYYMM",
            keep_days=days,
        )
        for name, days in (("5m", 400), ("1d", 800))
    ),
    StoredTable(
        "windows",
        _columns(
            f"{_WHO}, node id, rank i32, time_ns time, kind u8, state u8, name hash, "
            "count count, total_ns span, min_ns span, max_ns span"
        ),
        ("tenant", "job", "kind", "time_ns", "rank", "name"),
        time="time_ns",
        keep_days=3,
    ),
    *(
        StoredTable(
            f"windows_{name}",
            _columns(f"{_WHO}, time_ns time, kind u8, state u8, name hash, {_WINDOW_SUMS}"),
            ("tenant", "job", "kind", "time_ns", "name", "state", "attempt"),
            engine="AggregatingMergeTree",
            time="time_ns",
            partition="toYYYYMM",
            keep_days=days,
        )
        for name, days in (("5m", 60), ("1h", 400))
    ),
    StoredTable(
        "histograms",
        _columns(f"{_WHO}, time_ns time, kind u8, name hash, bucket u16, count add"),
        ("tenant", "job", "kind", "name", "time_ns", "bucket", "attempt"),
        engine="AggregatingMergeTree",
        time="time_ns",
        partition="toYYYYMM",
        keep_days=60,
    ),
    StoredTable(
        "collectives",
        _columns(
            f"{_WHO}, node id, rank i32, time_ns time, operation id, group id, "
            "size u32, count count, total_ns span, wait_ns span, bytes span, max_ns span"
        ),
        ("tenant", "job", "time_ns", "rank", "operation", "group"),
        time="time_ns",
        keep_days=14,
    ),
    StoredTable(
        "collectives_5m",
        _columns(f"{_WHO}, rank i32, time_ns time, operation id, group id, {_COLLECTIVE_SUMS}"),
        ("tenant", "job", "attempt", "time_ns", "operation", "group", "rank"),
        engine="AggregatingMergeTree",
        time="time_ns",
        partition="toYYYYMM",
        keep_days=60,
    ),
    StoredTable(
        "counters",
        _columns(
            f"{_WHO}, node id, rank i32, gpu i32, time_ns time, name id, "
            "count count, sum f64, min f64, max f64, last f64"
        ),
        (*_PLACED, _stretch("time_ns", 3600), "node", "gpu", "rank", "time_ns", "job"),
        time="time_ns",
        keep_days=14,
    ),
    StoredTable(
        "counters_5m",
        _columns(f"{_WHO}, node id, rank i32, gpu i32, time_ns time, name id, {_COUNTER_SUMS}"),
        (*_PLACED, _stretch("time_ns", 86_400), "node", "gpu", "rank", "time_ns", "job", "attempt"),
        engine="AggregatingMergeTree",
        time="time_ns",
        partition="toYYYYMM",
        keep_days=400,
    ),
    StoredTable(
        "counters_latest",
        _columns("tenant id, node id, gpu i32, name id, time_ns time, mean f64, min f64, max f64"),
        ("tenant", "node", "gpu", "name"),
        engine="ReplacingMergeTree",
        version="time_ns",
        time="time_ns",
        partition="",
        keep_days=30,
    ),
    StoredTable(
        "names",
        _columns("tenant id, id hash, kind u8, text text, seen_ns time"),
        ("tenant", "id"),
        engine="ReplacingMergeTree",
        version="seen_ns",
        time="seen_ns",
        partition="",
        keep_days=430,
    ),
    StoredTable(
        "jobs",
        _columns(
            f"{_WHO}, cluster id, node id, started_ns time, updated_ns time, ended_ns time, "
            "state id, exit_code i32, signal i32, launcher id, world_size i32, command text, "
            "facts text"
        ),
        ("tenant", "job", "attempt", "node"),
        engine="ReplacingMergeTree",
        version="updated_ns",
        time="updated_ns",
        partition="",
        keep_days=400,
    ),
    StoredTable(
        "ranks",
        _columns(
            f"{_WHO}, node id, rank i32, process i32, role id, pid i32, gpu i32, gpu_name id, "
            "python id, started_ns time, updated_ns time, ended_ns time, how id, step i64, "
            "records_read count, records_dropped count, cpu_ns span"
        ),
        ("tenant", "job", "attempt", "rank", "node", "process"),
        engine="ReplacingMergeTree",
        version="updated_ns",
        time="updated_ns",
        partition="",
        keep_days=400,
    ),
    StoredTable(
        "findings",
        _columns(
            f"{_WHO}, id text, rule id, cause id, title text, state id, severity id, "
            "ranks ranks, nodes texts, place text, evidence texts, fix text, gain_low_ratio f64, "
            "gain_high_ratio f64, confidence id, wasted_gpu_s f64, opened_ns time, updated_ns "
            "time, closed_ns time, capture text"
        ),
        ("tenant", "job", "id"),
        engine="ReplacingMergeTree",
        version="updated_ns",
        time="updated_ns",
        partition="",
        keep_days=400,
    ),
    StoredTable(
        "captures",
        _columns(
            f"{_WHO}, id text, reason id, asked_by text, finding text, state id, problem text, "
            "ranks ranks, nodes texts, from_ns time, to_ns time, requested_ns time, "
            "updated_ns time, expires_ns time, files count, bytes count"
        ),
        ("tenant", "job", "id"),
        engine="ReplacingMergeTree",
        version="updated_ns",
        time="updated_ns",
        partition="",
        keep_days=90,
    ),
    StoredTable(
        "agents",
        _columns(
            "tenant id, agent id, cluster id, node id, version id, epoch i64, seen_ns time, "
            "offset_ns i64, uncertainty_ns i64, cpu_ratio f64, rss_bytes count, jobs texts, "
            "spool_bytes count, batches_lost count, rows_lost count, records_dropped count, "
            "gpus texts"
        ),
        ("tenant", "agent"),
        engine="ReplacingMergeTree",
        version="seen_ns",
        time="seen_ns",
        partition="",
        keep_days=30,
    ),
    StoredTable(
        "doctor",
        _columns(
            "tenant id, agent id, node id, what text, state id, detail text, fix text, seen_ns time"
        ),
        ("tenant", "agent", "what"),
        engine="ReplacingMergeTree",
        version="seen_ns",
        time="seen_ns",
        partition="",
        keep_days=30,
    ),
    StoredTable(
        "budgets",
        _columns(
            "tenant id, agent id, cpu_ceiling_ratio f64, memory_ceiling_bytes count, level i32, "
            "seen_ns time"
        ),
        ("tenant", "agent"),
        engine="ReplacingMergeTree",
        version="seen_ns",
        time="seen_ns",
        partition="",
        keep_days=30,
    ),
    StoredTable(
        "costs",
        _columns(
            "tenant id, agent id, job id, rank i32, process i32, tier id, sampler_ratio f64, "
            "rate_hz f64, launches_ratio f64, records_ratio f64, spent_ratio f64, "
            "overhead_low f64, overhead_high f64, seen_ns time"
        ),
        ("tenant", "agent", "job", "process"),
        engine="ReplacingMergeTree",
        version="seen_ns",
        time="seen_ns",
        partition="",
        keep_days=7,
    ),
    StoredTable(
        "losses",
        _columns(f"{_WHO}, node id, agent id, time_ns time, what id, count count"),
        ("tenant", "job", "time_ns", "node", "what"),
        time="time_ns",
        partition="toYYYYMM",
        keep_days=400,
    ),
    StoredTable(
        "batches",
        _columns(
            "tenant id, agent id, epoch i64, sequence i64, received_ns time, sent_ns time, "
            "offset_ns i64, uncertainty_ns i64, rows count, bytes count, protocol u16"
        ),
        ("tenant", "agent", "epoch", "sequence"),
        time="received_ns",
        keep_days=7,
    ),
    StoredTable(
        "audit",
        _columns("tenant id, time_ns time, who text, action id, what text"),
        ("tenant", "time_ns"),
        time="time_ns",
        partition="toYYYYMM",
        keep_days=400,
        is_public=False,
    ),
)

TABLES: Mapping[str, StoredTable] = MappingProxyType({table.name: table for table in _LIST})
