"""Jobs: which there are, how they go, what they cost."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from pilotlight.errors import NotFound
from pilotlight.store.queries.reader import HOUR_NS, Reader, Span
from pilotlight.store.schema import PARTS

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
    row: JobRow
    attempts: Sequence[Attempt]
    facts: dict[str, Any]
    quantiles_ns: dict[str, int]
    waste: Waste
    losses: dict[str, int]


_JOBS = """
WITH recent AS (
  SELECT job, attempt, node, argMax(cluster, updated_ns) AS cluster_,
    min(started_ns) AS started, max(updated_ns) AS updated,
    argMax(ended_ns, updated_ns) AS ended, argMax(state, updated_ns) AS state_,
    argMax(exit_code, updated_ns) AS exit_, argMax(signal, updated_ns) AS signal_,
    argMax(launcher, updated_ns) AS launcher_, max(world_size) AS world,
    argMax(command, updated_ns) AS command_
  FROM jobs WHERE tenant = {tenant:String} AND ({job:String} = '' OR job = {job:String})
  GROUP BY job, attempt, node
  HAVING updated >= {from_ns:Int64} AND started < {to_ns:Int64}
)
SELECT job, argMax(cluster_, (attempt, updated)), min(started), max(updated),
  max(ended), max(attempt) AS latest,
  uniqExact(attempt), uniqExact(node), max(world),
  argMax(launcher_, (attempt, updated)), argMax(command_, (attempt, updated)),
  groupArray((attempt, node, state_, started, updated, ended, exit_, signal_))
FROM recent GROUP BY job ORDER BY max(updated) DESC LIMIT {limit:UInt32}
"""

_STEP_SUMS = """
SELECT job, sum(s.count), sum(s.total_ns), sum(s.compute_ns)
FROM job_steps_5m AS s WHERE tenant = {tenant:String} AND job IN {jobs:Array(String)}
GROUP BY job
"""

_RANKS = """
SELECT job, uniqExact(rank), sum(length) FROM (
  SELECT job, attempt, rank, max(if(ended_ns > 0, ended_ns, updated_ns)) - min(started_ns) AS length
  FROM ranks FINAL
  WHERE tenant = {tenant:String} AND job IN {jobs:Array(String)} AND role IN ('rank', 'main')
  GROUP BY job, attempt, rank) GROUP BY job
"""

_FINDINGS = """
SELECT job, count() FROM findings FINAL
WHERE tenant = {tenant:String} AND job IN {jobs:Array(String)} AND state = 'open' GROUP BY job
"""

_LOSSES = """
SELECT job, what, sum(count) FROM losses
WHERE tenant = {tenant:String} AND job IN {jobs:Array(String)} GROUP BY job, what
"""


def jobs(reader: Reader, span: Span, limit: int = 200) -> list[JobRow]:
    """Those with news in the span, latest first."""
    return _rows(reader, "", span, limit)


def job(reader: Reader, name: str) -> JobDetail:
    """NotFound names the latest jobs."""
    found = _rows(reader, name, Span(0, 1 << 62), 1)
    if not found:
        others = [row.job for row in jobs(reader, Span(0, 1 << 62), 8)]
        raise NotFound(f"no job {name}; there are: {', '.join(others) or 'none'}")
    row = found[0]
    losses = {str(what): int(count) for _, what, count in reader.select(_LOSSES, jobs=[name])}
    return JobDetail(
        row=row,
        attempts=_attempts(reader, name),
        facts=_facts(reader, name),
        quantiles_ns=step_quantiles(reader, name),
        waste=waste(reader, name),
        losses=losses,
    )


def step_quantiles(
    reader: Reader, name: str, quantiles: Sequence[float] = (0.5, 0.9, 0.99)
) -> dict[str, int]:
    """From the log-histogram: at most 12.5 % too high."""
    counts = reader.select(
        "SELECT bucket, sum(count) FROM step_histogram_5m "
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


def waste(reader: Reader, name: str) -> Waste:
    """Where the rank hours of a job went."""
    sums = ", ".join(f"sum(s.{part})" for part in PARTS)
    found = reader.select(
        f"SELECT sum(s.total_ns), {sums} FROM job_steps_5m AS s "
        "WHERE tenant = {tenant:String} AND job = {job:String}",
        job=name,
    )[0]
    lengths = reader.select(_RANKS, jobs=[name])
    gpu_ns = int(lengths[0][2]) if lengths else 0
    total_ns, *parts = (int(value) for value in found)
    by_part = dict(zip(PARTS, parts, strict=True))
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


def _rows(reader: Reader, name: str, span: Span, limit: int) -> list[JobRow]:
    found = reader.select(_JOBS, job=name, from_ns=span.from_ns, to_ns=span.to_ns, limit=limit)
    names = [row[0] for row in found]
    steps = {row[0]: row[1:] for row in reader.select(_STEP_SUMS, jobs=names)}
    ranks = {row[0]: row[1:] for row in reader.select(_RANKS, jobs=names)}
    findings: dict[str, int] = dict(reader.select(_FINDINGS, jobs=names))
    lost: dict[str, int] = {}
    for job_name, _, count in reader.select(_LOSSES, jobs=names):
        lost[job_name] = lost.get(job_name, 0) + int(count)
    made = []
    for row in found:
        job_name, cluster, started, updated, ended, latest, attempts, nodes, world = row[:9]
        launcher, command, places = row[9:]
        newest = [place for place in places if place[0] == latest]
        state = _state(reader, [place[2] for place in newest], updated)
        count, total_ns, compute_ns = (int(v) for v in steps.get(job_name, (0,) * 3))
        rank_count, length_ns = ranks.get(job_name, (0, 0))
        bad = next((place for place in newest if place[6] or place[7]), None)
        made.append(
            JobRow(
                job=job_name,
                cluster=cluster,
                state=state,
                started_ns=int(started),
                updated_ns=int(updated),
                ended_ns=int(ended) if state not in ("running", "lost") else 0,
                attempts=int(attempts),
                nodes=int(nodes),
                ranks=int(rank_count),
                world_size=int(world),
                launcher=launcher,
                command=command,
                exit_code=int(bad[6]) if bad else 0,
                signal=int(bad[7]) if bad else 0,
                steps=count // max(1, int(rank_count)),
                step_ns=total_ns // count if count else 0,
                gpu_hours=int(length_ns) / HOUR_NS,
                busy_ratio=compute_ns / total_ns if compute_ns and total_ns else None,
                open_findings=int(findings.get(job_name, 0)),
                lost=lost.get(job_name, 0),
            )
        )
    return made


def _state(reader: Reader, states: Sequence[str], updated_ns: int) -> str:
    if "running" in states:
        return "running" if reader.now_ns - updated_ns < SILENT_NS else "lost"
    return "failed" if "failed" in states else "finished"


def _attempts(reader: Reader, name: str) -> list[Attempt]:
    found = reader.select(
        "SELECT j.attempt, groupArray(j.state), min(j.started_ns), max(j.updated_ns), "
        "max(j.ended_ns), uniqExact(j.node), max(j.exit_code), any(r.ranks) FROM jobs AS j FINAL "
        "LEFT JOIN (SELECT attempt, uniqExact(rank) AS ranks FROM ranks FINAL "
        "WHERE tenant = {tenant:String} AND job = {job:String} AND role IN ('rank', 'main') "
        "GROUP BY attempt) AS r ON r.attempt = j.attempt "
        "WHERE j.tenant = {tenant:String} AND j.job = {job:String} "
        "GROUP BY j.attempt ORDER BY j.attempt",
        job=name,
    )
    return [
        Attempt(
            attempt=int(attempt),
            state=_state(reader, states, int(updated)),
            started_ns=int(started),
            ended_ns=int(ended),
            nodes=int(nodes),
            ranks=int(ranks),
            exit_code=int(exit_code),
        )
        for attempt, states, started, updated, ended, nodes, exit_code, ranks in found
    ]


def _facts(reader: Reader, name: str) -> dict[str, Any]:
    found = reader.select(
        "SELECT facts FROM jobs FINAL WHERE tenant = {tenant:String} AND job = {job:String} "
        "ORDER BY attempt DESC, updated_ns DESC LIMIT 1",
        job=name,
    )
    try:
        facts = json.loads(found[0][0]) if found else {}
    except ValueError:
        return {}
    return facts if isinstance(facts, dict) else {}
