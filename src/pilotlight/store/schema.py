"""The tables of the store as data: what docs/store.md says, for the writer and for readers.

All times are nanoseconds since 1970 on the collector's clock. A name that ends in `_10s`, `_5m`,
`_1h`, `_1d`, `_x4` to `_x4096`, `_totals` or `_latest` is a rollup (rollups.py), and so is
`longest_steps`. An order with a stretch of time in it lays the places of a stretch side by side: a
minute of all ranks is a few blocks on the disk, and so is an hour of one rank.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from pilotlight.ship.wire import PARTS as PARTS
from pilotlight.store.table import StoredTable, columns

SCHEMA_VERSION = 4
STRETCHES_NS: Mapping[str, int] = MappingProxyType(
    {"steps": 60 * 10**9, "counters": 3600 * 10**9, "counters_5m": 86_400 * 10**9}
)
"""Tables with a stretch of time in their order; readers name it (queries.reader.bounded)."""

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


def _stretch(table: str, column: str = "time_ns") -> str:
    return f"intDiv({column}, {STRETCHES_NS[table]})"


_LIST = (
    StoredTable(
        "steps",
        columns(
            f"{_WHO}, node id, rank i32, step i64, start_ns time, duration_ns span, {_PARTS}, "
            "wait_ns span, known u16"
        ),
        ("tenant", "job", _stretch("steps", "start_ns"), "rank", "start_ns"),
        time="start_ns",
        keep_days=14,
    ),
    *(
        StoredTable(
            f"steps_x{steps}",
            columns(
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
            columns(f"{_WHO}, node id, rank i32, time_ns time, {_STEP_SUMS}"),
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
            columns(f"{_WHO}, time_ns time, {_STEP_SUMS}"),
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
        "longest_steps",
        columns(f"{_WHO}, step i64, time_ns time, first_ns min, max_ns max"),
        ("tenant", "job", "attempt", "step", "time_ns"),
        engine="AggregatingMergeTree",
        time="time_ns",
        partition="toYYYYMM",
        keep_days=60,
    ),
    StoredTable(
        "job_totals",
        columns(f"{_WHO}, {_STEP_SUMS}, first_step min, last_step max, first_ns min, last_ns max"),
        ("tenant", "job", "attempt"),
        engine="AggregatingMergeTree",
        time="last_ns",
        partition="",
        keep_days=800,
    ),
    *(
        StoredTable(
            f"step_histogram_{name}",
            columns(f"{_WHO}, time_ns time, bucket u16, count add"),
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
        columns(
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
            columns(f"{_WHO}, time_ns time, kind u8, state u8, name hash, {_WINDOW_SUMS}"),
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
        columns(f"{_WHO}, time_ns time, kind u8, name hash, bucket u16, count add"),
        ("tenant", "job", "kind", "name", "time_ns", "bucket", "attempt"),
        engine="AggregatingMergeTree",
        time="time_ns",
        partition="toYYYYMM",
        keep_days=60,
    ),
    StoredTable(
        "collectives",
        columns(
            f"{_WHO}, node id, rank i32, time_ns time, operation id, group id, "
            "size u32, count count, total_ns span, wait_ns span, bytes span, max_ns span"
        ),
        ("tenant", "job", "time_ns", "rank", "operation", "group"),
        time="time_ns",
        keep_days=14,
    ),
    StoredTable(
        "collectives_5m",
        columns(f"{_WHO}, rank i32, time_ns time, operation id, group id, {_COLLECTIVE_SUMS}"),
        ("tenant", "job", "attempt", "time_ns", "operation", "group", "rank"),
        engine="AggregatingMergeTree",
        time="time_ns",
        partition="toYYYYMM",
        keep_days=60,
    ),
    StoredTable(
        "counters",
        columns(
            f"{_WHO}, node id, rank i32, gpu i32, time_ns time, name id, "
            "count count, sum f64, min f64, max f64, last f64"
        ),
        (*_PLACED, _stretch("counters"), "node", "gpu", "rank", "time_ns", "job"),
        time="time_ns",
        keep_days=14,
    ),
    StoredTable(
        "counters_5m",
        columns(f"{_WHO}, node id, rank i32, gpu i32, time_ns time, name id, {_COUNTER_SUMS}"),
        (*_PLACED, _stretch("counters_5m"), "node", "gpu", "rank", "time_ns", "job", "attempt"),
        engine="AggregatingMergeTree",
        time="time_ns",
        partition="toYYYYMM",
        keep_days=400,
    ),
    StoredTable(
        "counters_latest",
        columns("tenant id, node id, gpu i32, name id, time_ns time, mean f64, min f64, max f64"),
        ("tenant", "node", "gpu", "name"),
        engine="ReplacingMergeTree",
        version="time_ns",
        time="time_ns",
        partition="",
        keep_days=30,
    ),
    StoredTable(
        "names",
        columns("tenant id, id hash, kind u8, text text, seen_ns time"),
        ("tenant", "id"),
        engine="ReplacingMergeTree",
        version="seen_ns",
        time="seen_ns",
        partition="",
        keep_days=430,
        # Looked up one by one, and their order is chance.
        granule=128,
    ),
    StoredTable(
        "jobs",
        columns(
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
        columns(
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
        columns(
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
        columns(
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
        columns(
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
        columns(
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
        columns(
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
        columns(
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
        columns(f"{_WHO}, node id, agent id, time_ns time, what id, count count"),
        ("tenant", "job", "time_ns", "node", "what"),
        time="time_ns",
        partition="toYYYYMM",
        keep_days=400,
    ),
    StoredTable(
        "batches",
        columns(
            "tenant id, agent id, epoch i64, sequence i64, received_ns time, sent_ns time, "
            "offset_ns i64, uncertainty_ns i64, rows count, bytes count, protocol u16"
        ),
        ("tenant", "agent", "epoch", "sequence"),
        time="received_ns",
        keep_days=7,
    ),
    StoredTable(
        "audit",
        columns("tenant id, time_ns time, who text, action id, what text"),
        ("tenant", "time_ns"),
        time="time_ns",
        partition="toYYYYMM",
        keep_days=400,
        is_public=False,
    ),
)

TABLES: Mapping[str, StoredTable] = MappingProxyType({table.name: table for table in _LIST})
