"""Jobs: which there are, how they go, what they cost."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from pilotlight.errors import NotFound
from pilotlight.store.queries.reader import HOUR_NS, Reader, Span
from pilotlight.store.schema import PARTS
from pilotlight.store.store import Row

SILENT_NS = 60_000_000_000
"""A job that said nothing for this long and did not end is lost."""


@dataclass(frozen=True)
class JobRow:
    """All attempts of a job together; `gpu_hours` counts ranks, `busy_ratio` is of step time."""

    job: str
    cluster: str
    state: str
    started_ns: int
    updated_ns: int
    ended_ns: int
    attempts: int
    nodes: int
    ranks: int
    world_size: int
    launcher: str
    command: str
    exit_code: int
    signal: int
    steps: int
    step_ns: int
    gpu_hours: float
    busy_ratio: float | None
    open_findings: int
    lost: int


@dataclass(frozen=True)
class Attempt:
    attempt: int
    state: str
    started_ns: int
    ended_ns: int
    nodes: int
    ranks: int
    exit_code: int


@dataclass(frozen=True)
class Waste:
    """Rank hours of a job by what they were spent on; `unknown` is time of steps without a
    breakdown, `outside` is time between the steps."""

    gpu_hours: float
    busy_hours: float
    wasted_hours: dict[str, float]
    unknown_hours: float
    outside_hours: float


@dataclass(frozen=True)
class JobDetail:
    """Steps and their times are those of the newest attempt, as far as the store remembers them.
    The price of a GPU hour is 0 where the collector was not told it."""

    row: JobRow
    attempts: Sequence[Attempt]
    facts: dict[str, Any]
    quantiles_ns: dict[str, int]
    waste: Waste
    losses: dict[str, int]
    first_step: int
    last_step: int
    first_step_ns: int
    last_step_ns: int
    price_per_gpu_hour: float = 0.0
    currency: str = ""


@dataclass(frozen=True)
class _Totals:
    """All steps of an attempt, or those that one shard has."""

    attempt: int
    count: int
    total_ns: int
    first_step: int
    last_step: int
    first_ns: int
    last_ns: int
    parts_ns: dict[str, int]


@dataclass(frozen=True)
class _Sizes:
    """The ranks of an attempt and how long all of them were there together."""

    ranks: int
    length_ns: int


@dataclass(frozen=True)
class _About:
    """Of each job: its steps and ranks by attempt, what was lost, how many findings are open."""

    totals: dict[str, list[_Totals]]
    sizes: dict[str, dict[int, _Sizes]]
    losses: dict[str, dict[str, int]]
    findings: dict[str, int]


_JOBS = """
SELECT job, argMax(cluster, (attempt, updated_ns)), min(started_ns), max(jobs.updated_ns) AS latest,
  max(ended_ns), uniqExact(attempt), uniqExact(node), max(world_size),
  argMax(launcher, (attempt, updated_ns)), argMax(command, (attempt, updated_ns)),
  groupUniqArray((attempt, state, exit_code, signal))
FROM jobs FINAL
WHERE tenant = {tenant:String} AND ({job:String} = '' OR job = {job:String})
  AND updated_ns >= {from_ns:Int64} AND started_ns < {to_ns:Int64}
GROUP BY job ORDER BY latest DESC LIMIT {limit:UInt32}
"""

_ATTEMPTS = """
SELECT attempt, groupUniqArray(state), min(started_ns), max(jobs.updated_ns), max(ended_ns),
  uniqExact(node), max(exit_code), argMax(facts, updated_ns) FROM jobs FINAL
WHERE tenant = {tenant:String} AND job = {job:String} GROUP BY attempt ORDER BY attempt
"""

_TOTALS = f"""
SELECT job, attempt, count, total_ns, first_step, last_step, first_ns, last_ns, {", ".join(PARTS)}
FROM job_totals FINAL WHERE tenant = {{tenant:String}} AND {{of_jobs}}
"""

_RANKS = """
SELECT job, attempt, uniqExact(rank), sum(length) FROM (
  SELECT job, attempt, rank, max(if(ended_ns > 0, ended_ns, updated_ns)) - min(started_ns) AS length
  FROM ranks FINAL
  WHERE tenant = {tenant:String} AND {of_jobs} AND role IN ('rank', 'main')
  GROUP BY job, attempt, rank) GROUP BY job, attempt
"""

_FINDINGS = """
SELECT job, count() FROM findings FINAL
WHERE tenant = {tenant:String} AND {of_jobs} AND state = 'open' GROUP BY job
"""

_LOSSES = """
SELECT job, what, sum(count) FROM losses
WHERE tenant = {tenant:String} AND {of_jobs} GROUP BY job, what
"""

# With more than this the engine is faster to read all of a tenant's than to look for each.
_FEW_JOBS = 100


def jobs(reader: Reader, span: Span, limit: int = 200) -> list[JobRow]:
    """Those with news in the span, latest first."""
    found = reader.select(_JOBS, job="", from_ns=span.from_ns, to_ns=span.to_ns, limit=limit)
    about = _about(reader, [row[0] for row in found])
    return _rows(reader, found, about)


def job(reader: Reader, name: str) -> JobDetail:
    """NotFound names the latest jobs."""
    attempts_of = reader.beside(lambda: reader.select(_ATTEMPTS, job=name))
    quantiles_of = reader.beside(lambda: step_quantiles(reader, name))
    about = _about(reader, [name])
    found = reader.select(_JOBS, job=name, from_ns=0, to_ns=1 << 62, limit=1)
    if not found:
        others = [row.job for row in jobs(reader, Span(0, 1 << 62), 8)]
        raise NotFound(f"no job {name}; there are: {', '.join(others) or 'none'}")
    (row,) = _rows(reader, found, about)
    attempts, mine = attempts_of.result(), about.totals.get(name, [])
    sizes = about.sizes.get(name, {})
    newest = [one for one in mine if one.attempt == max(each.attempt for each in mine)]
    return JobDetail(
        row=row,
        attempts=[
            Attempt(
                attempt=int(attempt),
                state=_state(reader, states, int(updated)),
                started_ns=int(started),
                ended_ns=int(ended),
                nodes=int(nodes),
                ranks=sizes.get(int(attempt), _Sizes(0, 0)).ranks,
                exit_code=int(exit_code),
            )
            for attempt, states, started, updated, ended, nodes, exit_code, _ in attempts
        ],
        facts=_facts(attempts[-1][-1]),
        quantiles_ns=quantiles_of.result(),
        waste=_waste(mine, sizes),
        losses=about.losses.get(name, {}),
        first_step=min((one.first_step for one in newest), default=0),
        last_step=max((one.last_step for one in newest), default=0),
        first_step_ns=min((one.first_ns for one in newest), default=0),
        last_step_ns=max((one.last_ns for one in newest), default=0),
    )


def step_quantiles(
    reader: Reader, name: str, quantiles: Sequence[float] = (0.5, 0.9, 0.99)
) -> dict[str, int]:
    """From the log-histogram: at most 12.5 % too high."""
    counts = reader.select(
        "SELECT bucket, sum(count) FROM step_histogram_1d "
        "WHERE tenant = {tenant:String} AND job = {job:String} GROUP BY bucket ORDER BY bucket",
        job=name,
    )
    total = sum(int(count) for _, count in counts)
    found: dict[str, int] = {}
    for quantile in quantiles if total else ():
        seen = 0
        for bucket, count in counts:
            seen += int(count)
            if seen >= quantile * total:
                found[f"p{100 * quantile:g}"] = bucket_end_ns(int(bucket))
                break
    return found


def bucket_end_ns(bucket: int) -> int:
    """The longest duration that docs/recording.md puts in this bucket."""
    if bucket < 8:
        return bucket
    octave, part = divmod(bucket, 8)
    return ((8 + part + 1) << (octave - 1)) - 1


def _waste(totals: Sequence[_Totals], sizes: dict[int, _Sizes]) -> Waste:
    """Where the rank hours of a job went."""
    gpu_ns = sum(size.length_ns for size in sizes.values())
    total_ns = sum(one.total_ns for one in totals)
    by_part = {part: sum(one.parts_ns[part] for one in totals) for part in PARTS}
    busy_ns = by_part.pop("compute_ns")
    known_ns = busy_ns + sum(by_part.values())
    return Waste(
        gpu_hours=gpu_ns / HOUR_NS,
        busy_hours=busy_ns / HOUR_NS,
        wasted_hours={
            part.removesuffix("_ns"): value / HOUR_NS for part, value in by_part.items() if value
        },
        unknown_hours=max(0, total_ns - known_ns) / HOUR_NS,
        outside_hours=max(0, gpu_ns - total_ns) / HOUR_NS,
    )


def _rows(
    reader: Reader,
    found: Sequence[Row],
    about: _About,
) -> list[JobRow]:
    made = []
    for row in found:
        name, cluster, started, updated, ended, attempts, nodes, world = row[:8]
        launcher, command, places = row[8:]
        latest = max(place[0] for place in places)
        newest = [place for place in places if place[0] == latest]
        state = _state(reader, [place[1] for place in newest], updated)
        mine, ranks = about.totals.get(name, []), about.sizes.get(name, {})
        count = sum(one.count for one in mine)
        total_ns = sum(one.total_ns for one in mine)
        compute_ns = sum(one.parts_ns["compute_ns"] for one in mine)
        rank_count = max((size.ranks for size in ranks.values()), default=0)
        bad = next((place for place in newest if place[2] or place[3]), None)
        made.append(
            JobRow(
                job=name,
                cluster=cluster,
                state=state,
                started_ns=int(started),
                updated_ns=int(updated),
                ended_ns=int(ended) if state not in ("running", "lost") else 0,
                attempts=int(attempts),
                nodes=int(nodes),
                ranks=rank_count,
                world_size=int(world),
                launcher=launcher,
                command=command,
                exit_code=int(bad[2]) if bad else 0,
                signal=int(bad[3]) if bad else 0,
                steps=count // max(1, rank_count),
                step_ns=total_ns // count if count else 0,
                gpu_hours=sum(size.length_ns for size in ranks.values()) / HOUR_NS,
                busy_ratio=compute_ns / total_ns if compute_ns and total_ns else None,
                open_findings=about.findings.get(name, 0),
                lost=sum(about.losses.get(name, {}).values()),
            )
        )
    return made


def _about(reader: Reader, names: Sequence[str]) -> _About:
    totals = reader.beside(lambda: _totals(reader, names))
    sizes = reader.beside(lambda: _sizes(reader, names))
    losses = reader.beside(lambda: _losses(reader, names))
    findings = {name: int(count) for name, count in _of_jobs(reader, _FINDINGS, names)}
    return _About(totals.result(), sizes.result(), losses.result(), findings)


def _totals(reader: Reader, names: Sequence[str]) -> dict[str, list[_Totals]]:
    found: dict[str, list[_Totals]] = {}
    for name, *values in _of_jobs(reader, _TOTALS, names):
        attempt, count, total, first, last, begin, end, *parts = (int(value) for value in values)
        by_part = dict(zip(PARTS, parts, strict=True))
        one = _Totals(attempt, count, total, first, last, begin, end, by_part)
        found.setdefault(name, []).append(one)
    return found


def _sizes(reader: Reader, names: Sequence[str]) -> dict[str, dict[int, _Sizes]]:
    found: dict[str, dict[int, _Sizes]] = {}
    for name, attempt, ranks, length_ns in _of_jobs(reader, _RANKS, names):
        found.setdefault(name, {})[int(attempt)] = _Sizes(int(ranks), int(length_ns))
    return found


def _losses(reader: Reader, names: Sequence[str]) -> dict[str, dict[str, int]]:
    found: dict[str, dict[str, int]] = {}
    for name, what, count in _of_jobs(reader, _LOSSES, names):
        found.setdefault(name, {})[str(what)] = int(count)
    return found


def _of_jobs(reader: Reader, sql: str, names: Sequence[str]) -> list[Row]:
    if len(names) == 1:
        return reader.select(sql.replace("{of_jobs}", "job = {job:String}"), job=names[0])
    if len(names) <= _FEW_JOBS:
        return reader.select(
            sql.replace("{of_jobs}", "job IN {jobs:Array(String)}"), jobs=list(names)
        )
    return reader.select(sql.replace("{of_jobs}", "1"))


def _state(reader: Reader, states: Sequence[str], updated_ns: int) -> str:
    if "running" in states:
        return "running" if reader.now_ns - updated_ns < SILENT_NS else "lost"
    return "failed" if "failed" in states else "finished"


def _facts(text: str) -> dict[str, Any]:
    try:
        facts = json.loads(text)
    except ValueError:
        return {}
    return facts if isinstance(facts, dict) else {}
