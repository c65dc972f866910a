"""The fleet at a glance: every job with its trend, where its time goes, what is wrong with it."""

from __future__ import annotations

from collections import defaultdict

from pilotlight.store import queries
from pilotlight.store.queries import FindingRow, JobRow, Reader, Span
from pilotlight.store.queries.reader import HOUR_NS
from pilotlight.store.schema import PARTS
from pilotlight.web import answers

JOBS_LIMIT = 5000
TREND_POINTS = 24
RECENT_NS = 600_000_000_000
GPU_COUNTERS = {
    "gpu.utilization_ratio": "busy_ratio",
    "gpu.temperature_c": "temperature_c",
    "gpu.sm_clock_mhz": "clock_mhz",
    "gpu.throttle_ratio": "throttle_ratio",
}

_TREND = """
SELECT job, groupArray(t), groupArray(m) FROM (
  SELECT job, intDiv(s.time_ns - {from_ns:Int64}, {width_ns:Int64}) AS t,
    sum(s.total_ns) / sum(s.count) AS m
  FROM job_steps_5m AS s WHERE tenant = {tenant:String}
    AND s.time_ns >= {from_ns:Int64} AND s.time_ns < {to_ns:Int64}
  GROUP BY job, t ORDER BY job, t) GROUP BY job
"""
_PARTS = f"""
SELECT job, sum(s.total_ns), {", ".join(f"sum(s.{part})" for part in PARTS)}
FROM job_steps_5m AS s WHERE tenant = {{tenant:String}}
  AND s.time_ns >= {{from_ns:Int64}} AND s.time_ns < {{to_ns:Int64}} GROUP BY job
"""
_GPUS = """
SELECT node, gpu, groupArray((name, v)) FROM (
  SELECT node, gpu, name, sum(c.sum) / greatest(sum(c.count), 1) AS v
  FROM counters AS c WHERE tenant = {tenant:String} AND c.time_ns >= {from_ns:Int64}
    AND c.time_ns < {to_ns:Int64} AND gpu >= 0 AND name IN {names:Array(String)}
  GROUP BY node, gpu, name) GROUP BY node, gpu ORDER BY node, gpu
"""


def fleet(reader: Reader, span: Span) -> answers.Fleet:
    rows = queries.jobs(reader, span, JOBS_LIMIT)
    worst = _worst(queries.findings(reader, state="open", limit=JOBS_LIMIT))
    trends = _trends(reader, span)
    parts = _parts(reader, span)
    jobs = [_job(row, trends, parts, worst) for row in rows]
    nodes = _nodes(reader, span)
    return answers.Fleet(
        now_ns=reader.now_ns,
        from_ns=span.from_ns,
        to_ns=span.to_ns,
        headline=headline(jobs, nodes),
        jobs=jobs,
        nodes=nodes,
        is_partial=reader.is_partial,
    )


def headline(jobs: list[answers.FleetJob], nodes: list[answers.Node]) -> str:
    """How many, how busy, how much is lost and to how few causes."""
    running = [job for job in jobs if job.state == "running"]
    gpus = [gpu for node in nodes for gpu in node.gpus]
    text = f"{len(running)} of {len(jobs)} jobs running"
    if gpus:
        text += f" · {len(gpus):,} GPUs"
        busy = [gpu.busy_ratio for gpu in gpus if gpu.busy_ratio is not None]
        if busy:
            text += f" · {100 * sum(busy) / len(busy):.0f} % busy"
    lost = sum(job.lost_hours or 0.0 for job in jobs)
    if lost:
        causes: dict[str, float] = defaultdict(float)
        for job in jobs:
            for cause, hours in job.lost_by_cause_hours.items():
                causes[cause] += hours
        first = sorted(causes.items(), key=lambda item: -item[1])[:3]
        top = sum(hours for _, hours in first)
        names = ", ".join(cause for cause, _ in first)
        text += f" · {lost:.3g} GPU-hours lost, {top:.3g} of them to {names}"
    return text


def _worst(found: list[FindingRow]) -> dict[str, FindingRow]:
    worst: dict[str, FindingRow] = {}
    for finding in found:
        known = worst.get(finding.job)
        if known is None or finding.gain_high_ratio > known.gain_high_ratio:
            worst[finding.job] = finding
    return worst


def _trends(reader: Reader, span: Span) -> dict[str, list[float | None]]:
    width_ns = max(span.length_ns // TREND_POINTS, 300_000_000_000)
    found = reader.select(_TREND, from_ns=span.from_ns, to_ns=span.to_ns, width_ns=width_ns)
    trends = {}
    for job, places, means in found:
        points: list[float | None] = [None] * TREND_POINTS
        for place, mean in zip(places, means, strict=True):
            points[min(int(place), TREND_POINTS - 1)] = float(mean)
        trends[job] = points
    return trends


def _parts(reader: Reader, span: Span) -> dict[str, dict[str, int]]:
    found = reader.select(_PARTS, from_ns=span.from_ns, to_ns=span.to_ns)
    parts = {}
    for job, total, *values in found:
        named = {
            part.removesuffix("_ns"): int(value)
            for part, value in zip(PARTS, values, strict=True)
            if value
        }
        left = int(total) - sum(named.values())
        parts[job] = named if left <= 0 else {**named, "unknown": left}
    return parts


def _job(
    row: JobRow,
    trends: dict[str, list[float | None]],
    parts: dict[str, dict[str, int]],
    worst: dict[str, FindingRow],
) -> answers.FleetJob:
    mine = parts.get(row.job, {})
    lost = {part: ns / HOUR_NS for part, ns in mine.items() if part not in ("compute", "unknown")}
    finding = worst.get(row.job)
    trend = trends.get(row.job, [])
    known = [value for value in trend if value is not None]
    change = None
    if len(known) >= 2:
        before = sum(known[:-1]) / (len(known) - 1)
        change = known[-1] / before - 1 if before else None
    measured = bool(mine) and set(mine) != {"unknown"}
    return answers.FleetJob(
        job=row.job,
        cluster=row.cluster,
        state=row.state,
        started_ns=row.started_ns,
        updated_ns=row.updated_ns,
        ranks=row.ranks,
        nodes=row.nodes,
        attempts=row.attempts,
        step_ns=int(known[-1]) if known else row.step_ns or None,
        change_ratio=change,
        trend_ns=trend,
        parts_ns=mine,
        open_findings=row.open_findings,
        worst_finding=finding.title if finding else "",
        worst_gain_ratio=finding.gain_high_ratio if finding else None,
        gpu_hours=row.gpu_hours,
        lost_hours=sum(lost.values()) if measured else None,
        lost_by_cause_hours=lost if measured else {},
        records_lost=row.lost,
    )


def _nodes(reader: Reader, span: Span) -> list[answers.Node]:
    end_ns = min(span.to_ns, reader.now_ns + RECENT_NS)
    found = reader.select(
        _GPUS, from_ns=end_ns - 2 * RECENT_NS, to_ns=end_ns, names=list(GPU_COUNTERS)
    )
    gpus: dict[str, list[answers.GpuNow]] = defaultdict(list)
    for node, gpu, pairs in found:
        values = {GPU_COUNTERS[name]: float(value) for name, value in pairs}
        gpus[node].append(answers.GpuNow(int(gpu), **values))
    return [
        answers.Node(
            node=row.node,
            cluster=row.cluster,
            state=row.state,
            jobs=list(row.jobs),
            open_findings=row.open_findings,
            gpus=gpus.get(row.node, []),
        )
        for row in queries.nodes(reader, span)
    ]
