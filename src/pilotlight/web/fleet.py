"""The fleet at a glance: every job with its trend, where its time goes, what is wrong with it."""

from __future__ import annotations

from collections import Counter, defaultdict

from pilotlight.store import queries
from pilotlight.store.queries import JobRow, Machine, Reader, Span, Trend
from pilotlight.store.queries.reader import HOUR_NS, PERIODS_NS, bounded
from pilotlight.store.store import Row
from pilotlight.web import answers
from pilotlight.web.jobs import is_last
from pilotlight.web.pace import Pace, paces

JOBS_LIMIT = 5000
TREND_POINTS = 24
YOUNG_NS = 2 * HOUR_NS
GPU_COUNTERS = {
    "gpu.utilization_ratio": "busy_ratio",
    "gpu.temperature_c": "temperature_c",
    "gpu.sm_clock_mhz": "clock_mhz",
    "gpu.throttle_ratio": "throttle_ratio",
}
# As the page calls the parts of a step.
_CAUSES = {
    "loader": "data loaders",
    "copy": "copies",
    "gc": "garbage collection",
    "sync": "synchronisation",
    "checkpoint": "checkpoints",
    "compile": "compilation",
    "host": "the host",
    "other": "what is not known",
    "unknown": "what is not known",
}
_NAMED_RATIO = 0.02
MFU_COUNTERS = ("mfu", "mfu_ratio", "train/mfu", "model.mfu_ratio")
"""What programs call it when they tell it by `pilotlight.counter`."""

_MFU = f"""
SELECT job, sum(c.sum) / greatest(sum(c.count), 1) FROM counters_5m AS c
WHERE tenant = {{tenant:String}} AND name IN {{names:Array(String)}}
  AND {bounded("counters_5m", "c.time_ns")} GROUP BY job
"""
_OPEN = """
SELECT job, title, gain_high_ratio, nodes, state = 'open', closed_ns FROM findings FINAL
WHERE tenant = {tenant:String} AND (state = 'open' OR closed_ns >= {from_ns:Int64})
ORDER BY gain_high_ratio, opened_ns
"""


_COURSE = """
SELECT job, s.time_ns AS t, sum(s.total_ns) / sum(s.count) FROM job_steps_5m AS s
WHERE tenant = {tenant:String} AND job IN {names:Array(String)} AND t >= {from_ns:Int64}
GROUP BY job, t ORDER BY job, t
"""


def fleet(reader: Reader, span: Span) -> answers.Fleet:
    trends_of = reader.beside(lambda: queries.trends(reader, span, TREND_POINTS))
    open_of = reader.beside(lambda: reader.select(_OPEN, from_ns=span.from_ns))
    machines_of = reader.beside(lambda: queries.machines(reader))
    gpus_of = reader.beside(lambda: _gpus(reader, span))
    mfu_of = reader.beside(lambda: _mfu(reader, span))
    paces_of = reader.beside(lambda: paces(reader))
    rows = queries.jobs(reader, span, JOBS_LIMIT)
    young = course_of(reader, rows)
    trends, mfu, opened = trends_of.result(), mfu_of.result(), open_of.result()
    # The last one of a job is its worst.
    of_job = {row.job: row for row in rows}
    worst = {
        job: (title, gain_ratio)
        for job, title, gain_ratio, _, is_open, closed_ns in opened
        if is_open or (job in of_job and is_last(of_job[job], int(closed_ns)))
    }
    pace = paces_of.result()
    jobs = [
        _job(
            row,
            trends.get(row.job),
            young.get(row.job),
            pace.get(row.job, Pace()) if row.state == "running" else Pace(),
            worst.get(row.job),
            mfu.get(row.job),
        )
        for row in rows
    ]
    nodes = _nodes(machines_of.result(), gpus_of.result(), opened)
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
    if not jobs:
        return "No job has reported in this time"
    running = [job for job in jobs if job.state == "running"]
    gpus = [gpu for node in nodes for gpu in node.gpus]
    text = f"{len(running)} of {len(jobs)} jobs running"
    if gpus:
        text += f" · {len(gpus):,} GPUs"
        busy = [gpu.busy_ratio for gpu in gpus if gpu.busy_ratio is not None]
        if busy:
            text += f" · {100 * sum(busy) / len(busy):.0f} % busy"
    lost = {of: _lost(jobs, of == "GPU") for of in ("GPU", "rank")}
    unit, in_hour = _unit(max(lost.values()))
    told = " and ".join(
        f"{_three(hours * in_hour)} {of}-{unit}" for of, hours in lost.items() if hours
    )
    if told:
        causes: dict[str, float] = defaultdict(float)
        for job in jobs:
            for cause, hours in job.lost_by_cause_hours.items():
                causes[cause] += hours
        first = sorted(causes.items(), key=lambda item: -item[1])[:3]
        whole = sum(causes.values())
        # What nobody would miss is no cause to name.
        first = [item for item in first if item[1] >= _NAMED_RATIO * whole] or first[:1]
        top = sum(hours for _, hours in first)
        *others, last = (_CAUSES.get(cause, cause) for cause, _ in first)
        names = f"{', '.join(others)} and {last}" if others else last
        some = "" if top > (1 - _NAMED_RATIO) * whole else f", {_three(top * in_hour)} of them"
        text += f" · {told} lost{some} to {names}"
    return text


def _unit(hours: float) -> tuple[str, float]:
    """In which a loss is told, and how many make an hour: nobody reads 0.00827 hours."""
    if hours >= 0.1:
        return "hours", 1.0
    return ("minutes", 60.0) if hours >= 1 / 60 else ("seconds", 3600.0)


def _three(number: float) -> str:
    """Three digits, as everywhere on the page: 8.10, not 8.1."""
    return f"{number:,.0f}" if number >= 100 else f"{number:#.3g}"


def _lost(jobs: list[answers.FleetJob], has_gpus: bool) -> float:
    return sum(job.lost_hours or 0.0 for job in jobs if job.has_gpus == has_gpus)


def _mfu(reader: Reader, span: Span) -> dict[str, float]:
    """As the programs tell it; those that say per cent mean a hundredth."""
    found = reader.select(_MFU, names=list(MFU_COUNTERS), from_ns=span.from_ns, to_ns=span.to_ns)
    return {job: value if value <= 1 else value / 100 for job, value in found if value > 0}


def _job(
    row: JobRow,
    trend: Trend | None,
    course_ns: list[int | None] | None,
    pace: Pace,
    worst: tuple[str, float] | None,
    mfu_ratio: float | None,
) -> answers.FleetJob:
    mine = _with_unknown(trend) if trend else {}
    lost = {part: ns / HOUR_NS for part, ns in mine.items() if part not in ("compute", "unknown")}
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
        step_ns=pace.recent_ns or row.step_ns or None,
        change_ratio=pace.change_ratio,
        earlier=pace.earlier,
        mfu_ratio=mfu_ratio,
        trend_ns=course_ns or (trend.mean_ns if trend else []),
        parts_ns=mine,
        open_findings=row.open_findings,
        worst_finding=worst[0] if worst else "",
        worst_gain_ratio=worst[1] if worst else None,
        gpu_hours=row.gpu_hours,
        has_gpus=row.has_gpus,
        lost_hours=sum(lost.values()) if measured else None,
        lost_by_cause_hours=lost if measured else {},
        records_lost=row.lost,
    )


def course_of(reader: Reader, rows: list[JobRow]) -> dict[str, list[int | None]]:
    """The whole course of jobs that are too young to be seen in a day."""
    names = {row.job for row in rows if row.started_ns > reader.now_ns - YOUNG_NS}
    if not names:
        return {}
    found: dict[str, list[int | None]] = {}
    last: dict[str, int] = {}
    for job, time_ns, mean_ns in reader.select(
        _COURSE, names=sorted(names), from_ns=reader.now_ns - YOUNG_NS
    ):
        gaps = (int(time_ns) - last.get(job, int(time_ns))) // PERIODS_NS["5m"] - 1
        found.setdefault(job, []).extend([*[None] * gaps, round(mean_ns)])
        last[job] = int(time_ns)
    return found


def _with_unknown(trend: Trend) -> dict[str, int]:
    left = trend.total_ns - sum(trend.parts_ns.values())
    return trend.parts_ns if left <= 0 else {**trend.parts_ns, "unknown": left}


def _gpus(reader: Reader, span: Span) -> dict[str, list[answers.GpuNow]]:
    gpus: dict[str, list[answers.GpuNow]] = defaultdict(list)
    for gpu in queries.gpus_now(reader, span.to_ns, list(GPU_COUNTERS)):
        values = {
            field: gpu.counters[name]
            for name, field in GPU_COUNTERS.items()
            if name in gpu.counters
        }
        if values:
            gpus[gpu.node].append(answers.GpuNow(gpu.gpu, **values))
    return gpus


def _nodes(
    machines: list[Machine], gpus: dict[str, list[answers.GpuNow]], opened: list[Row]
) -> list[answers.Node]:
    findings = Counter(node for *_, nodes, is_open, _ in opened if is_open for node in nodes)
    return [
        answers.Node(
            node=row.node,
            cluster=row.cluster,
            state=row.state,
            jobs=list(row.jobs),
            open_findings=findings[row.node],
            gpus=gpus.get(row.node, []),
        )
        for row in machines
    ]
