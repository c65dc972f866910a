"""Which table is added up into which: the engine does it itself, whenever rows go in."""

from __future__ import annotations

from dataclasses import dataclass

from pilotlight.ship.wire import PARTS, WAIT_KNOWN


@dataclass(frozen=True)
class Rollup:
    """Rows that go into `source` are added up into `target`."""

    source: str
    target: str
    select: str

    @property
    def name(self) -> str:
        return f"{self.source}_to_{self.target}"


_PERIODS = {"10s": 10, "5m": 300, "1h": 3600, "1d": 86_400}
_STEP_PARTS = ", ".join(f"sum({part}) AS {part}" for part in PARTS)
_BUCKET = (
    "toUInt16(if(duration_ns < 8, greatest(duration_ns, 0), "
    "8 * (toInt64(floor(log2(duration_ns))) - 2) + "
    "bitAnd(bitShiftRight(duration_ns, toInt64(floor(log2(duration_ns))) - 3), 7)))"
)


def _window(column: str, period: str) -> str:
    width_ns = _PERIODS[period] * 10**9
    return f"intDiv({column}, {width_ns}) * {width_ns} AS time_ns"


def _step_rollup(source: str, target: str, who: str, column: str, sums: str) -> Rollup:
    period = target.rsplit("_", 1)[1]
    return Rollup(
        source,
        target,
        f"SELECT {who}, {_window(column, period)}, {sums}, {_STEP_PARTS} "
        f"FROM {{source}} GROUP BY {who}, time_ns",
    )


_WHO_RANK = "tenant, job, attempt, node, rank"
_OF_STEPS = (
    "count() AS count, sum(duration_ns) AS total_ns, min(duration_ns) AS min_ns, "
    "max(duration_ns) AS max_ns"
)
_OF_SUMS = (
    "sum(count) AS count, sum(total_ns) AS total_ns, min(min_ns) AS min_ns, max(max_ns) AS max_ns"
)

ROLLUPS: tuple[Rollup, ...] = (
    _step_rollup("steps", "steps_10s", _WHO_RANK, "start_ns", _OF_STEPS),
    _step_rollup("steps_10s", "steps_5m", _WHO_RANK, "{source}.time_ns", _OF_SUMS),
    _step_rollup("steps_5m", "steps_1h", _WHO_RANK, "{source}.time_ns", _OF_SUMS),
    _step_rollup("steps_1h", "steps_1d", _WHO_RANK, "{source}.time_ns", _OF_SUMS),
    _step_rollup("steps", "job_steps_10s", "tenant, job, attempt", "start_ns", _OF_STEPS),
    _step_rollup(
        "job_steps_10s", "job_steps_5m", "tenant, job, attempt", "{source}.time_ns", _OF_SUMS
    ),
    *(
        _step_rollup(source, target, "tenant, job, attempt", "{source}.time_ns", _OF_SUMS)
        for source, target in (("job_steps_5m", "job_steps_1h"), ("job_steps_1h", "job_steps_1d"))
    ),
    Rollup(
        "steps",
        "job_totals",
        f"SELECT tenant, job, attempt, {_OF_STEPS}, {_STEP_PARTS}, min(step) AS first_step, "
        "max(step) AS last_step, min(start_ns) AS first_ns, max(start_ns + duration_ns) AS last_ns "
        "FROM {source} GROUP BY tenant, job, attempt",
    ),
    Rollup(
        "steps",
        "longest_steps",
        f"SELECT tenant, job, attempt, step, {_window('start_ns', '1d')}, "
        "min(start_ns) AS first_ns, max(duration_ns) AS max_ns FROM {source} "
        "GROUP BY tenant, job, attempt, step, time_ns",
    ),
    Rollup(
        "steps",
        "steps_x4",
        "SELECT tenant, job, attempt, rank, intDiv(step, 4) AS block, "
        f"{_window('start_ns', '1d')}, count() AS count, countIf(bitAnd(known, {WAIT_KNOWN}) > 0) "
        f"AS waits, sumIf({{source}}.wait_ns, bitAnd(known, {WAIT_KNOWN}) > 0) AS wait_ns, "
        "max(duration_ns) AS max_ns FROM {source} "
        "GROUP BY tenant, job, attempt, rank, block, time_ns",
    ),
    *(
        Rollup(
            f"steps_x{steps}",
            f"steps_x{4 * steps}",
            "SELECT tenant, job, attempt, rank, intDiv({source}.block, 4) AS block, time_ns, "
            "sum(count) AS count, sum(waits) AS waits, sum(wait_ns) AS wait_ns, "
            "max(max_ns) AS max_ns FROM {source} "
            "GROUP BY tenant, job, attempt, rank, block, time_ns",
        )
        for steps in (4, 16, 64, 256, 1024)
    ),
    Rollup(
        "steps",
        "step_histogram_5m",
        f"SELECT tenant, job, attempt, {_window('start_ns', '5m')}, {_BUCKET} AS bucket, "
        "count() AS count FROM {source} GROUP BY tenant, job, attempt, time_ns, bucket",
    ),
    Rollup(
        "step_histogram_5m",
        "step_histogram_1d",
        f"SELECT tenant, job, attempt, {_window('{source}.time_ns', '1d')}, bucket, "
        "sum(count) AS count FROM {source} GROUP BY tenant, job, attempt, time_ns, bucket",
    ),
    *(
        Rollup(
            source,
            target,
            f"SELECT tenant, job, attempt, {_window('{source}.time_ns', target[-2:])}, kind, "
            f"state, name, {_OF_SUMS} FROM {{source}} "
            "GROUP BY tenant, job, attempt, time_ns, kind, state, name",
        )
        for source, target in (("windows", "windows_5m"), ("windows_5m", "windows_1h"))
    ),
    Rollup(
        "collectives",
        "collectives_5m",
        f"SELECT tenant, job, attempt, rank, {_window('{source}.time_ns', '5m')}, operation, "
        "group, sum(count) AS count, sum(total_ns) AS total_ns, sum(wait_ns) AS wait_ns, "
        "sum(bytes) AS bytes, max(max_ns) AS max_ns FROM {source} "
        "GROUP BY tenant, job, attempt, rank, time_ns, operation, group",
    ),
    Rollup(
        "counters",
        "counters_5m",
        f"SELECT tenant, job, attempt, node, rank, gpu, {_window('{source}.time_ns', '5m')}, "
        "name, sum({source}.count) AS count, sum({source}.sum) AS sum, min({source}.min) AS min, "
        "max({source}.max) AS max FROM {source} "
        "GROUP BY tenant, job, attempt, node, rank, gpu, time_ns, name",
    ),
    Rollup(
        "counters",
        "counters_latest",
        "SELECT tenant, node, gpu, name, max({source}.time_ns) AS time_ns, "
        "argMax({source}.sum / greatest({source}.count, 1), {source}.time_ns) AS mean, "
        "argMax({source}.min, {source}.time_ns) AS min, "
        "argMax({source}.max, {source}.time_ns) AS max "
        "FROM {source} GROUP BY tenant, node, gpu, name",
    ),
)
