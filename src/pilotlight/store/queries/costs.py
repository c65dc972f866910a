"""What collecting costs now, against its budget: by agent, or of a job."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from pilotlight.store.queries.reader import Reader


@dataclass(frozen=True)
class Cost:
    """Of processes that were heard of in the last ten minutes. None: not measured on any of them.

    `sampler_ratio` (of a core), `spent_ratio` and the overhead's interval are those of the process
    with the most, `rate_hz` of that with the least; launches and records are means, the part of the
    time in which they are collected. `measured` of the processes have an interval."""

    processes: int
    measured: int
    tiers: tuple[str, ...]
    sampler_ratio: float | None
    rate_hz: float | None
    launches_ratio: float | None
    records_ratio: float | None
    spent_ratio: float | None
    overhead_low: float | None
    overhead_high: float | None


@dataclass(frozen=True)
class AgentCost:
    """`level` above 0: the agent is over its budget and does less. A ceiling of 0: not told."""

    agent: str
    cpu_ceiling_ratio: float
    memory_ceiling_bytes: int
    level: int
    cost: Cost


_RECENT_NS = 600_000_000_000
"""Agents tell it once a minute, or with every batch where those are rarer."""

_COLUMNS = """
count(), countIf(isFinite(overhead_high)), groupUniqArrayIf(tier, tier != ''),
  maxOrNullIf(sampler_ratio, isFinite(sampler_ratio)), minOrNullIf(rate_hz, isFinite(rate_hz)),
  avgOrNullIf(launches_ratio, isFinite(launches_ratio)),
  avgOrNullIf(records_ratio, isFinite(records_ratio)),
  maxOrNullIf(spent_ratio, isFinite(spent_ratio)),
  argMaxOrNullIf(overhead_low, overhead_high, isFinite(overhead_high)),
  maxOrNullIf(overhead_high, isFinite(overhead_high))
"""
_FROM = "FROM costs FINAL WHERE tenant = {tenant:String} AND seen_ns >= {since_ns:Int64}"
NOTHING = Cost(0, 0, (), None, None, None, None, None, None, None)


def agent_costs(reader: Reader, limit: int = 5000) -> list[AgentCost]:
    since_ns = reader.now_ns - _RECENT_NS
    found = {
        row[0]: _cost(row[1:])
        for row in reader.select(
            f"SELECT agent, {_COLUMNS} {_FROM} GROUP BY agent", since_ns=since_ns
        )
    }
    budgets = reader.select(
        "SELECT agent, cpu_ceiling_ratio, memory_ceiling_bytes, level FROM budgets FINAL "
        "WHERE tenant = {tenant:String} AND seen_ns >= {since_ns:Int64}",
        since_ns=since_ns,
    )
    told = {row[0]: (float(row[1]), int(row[2]), int(row[3])) for row in budgets}
    return [
        AgentCost(agent, *told.get(agent, (0.0, 0, 0)), found.get(agent, NOTHING))
        for agent in sorted({*found, *told})[:limit]
    ]


def job_cost(reader: Reader, job: str) -> Cost:
    (row,) = reader.select(
        f"SELECT {_COLUMNS} {_FROM} AND job = {{job:String}}",
        since_ns=reader.now_ns - _RECENT_NS,
        job=job,
    )
    return _cost(row)


def _cost(row: Any) -> Cost:
    processes, measured, tiers, *values = row
    ratios = [None if value is None else float(value) for value in values]
    return Cost(int(processes), int(measured), tuple(sorted(tiers)), *ratios)
