"""One job: the sentence about it, its ranks, findings, events; and the map of ranks and steps."""

from __future__ import annotations

import numpy as np

from pilotlight.errors import UsageError
from pilotlight.store import queries
from pilotlight.store.queries import FindingRow, JobDetail, Reader, Span
from pilotlight.trace.trace import Float64
from pilotlight.web import answers
from pilotlight.web.headline import duration
from pilotlight.web.table import stream

DAY_NS = 86_400_000_000_000
RECENT_NS = 600_000_000_000
CELLS_LIMIT = 500_000
APART_NS = 120_000_000_000
VALUES = ("time", "lateness", "wait")
NOTICED_RATIO = 0.02

_STEPS = """
SELECT min(step), max(step), min(start_ns), max(start_ns + duration_ns) FROM steps
WHERE tenant = {tenant:String} AND job = {job:String} AND attempt = {attempt:Int32}
  AND rank = {rank:Int32}
"""
_MEAN = """
SELECT sumIf(s.total_ns, s.time_ns >= {recent_ns:Int64}),
  sumIf(s.count, s.time_ns >= {recent_ns:Int64}),
  sumIf(s.total_ns, s.time_ns < {recent_ns:Int64}), sumIf(s.count, s.time_ns < {recent_ns:Int64})
FROM job_steps_10s AS s
WHERE tenant = {tenant:String} AND job = {job:String} AND s.time_ns >= {from_ns:Int64}
  AND s.time_ns < {to_ns:Int64}
"""
_TIME = """
SELECT min(start_ns), max(start_ns), count() FROM steps
WHERE tenant = {tenant:String} AND job = {job:String} AND attempt = {attempt:Int32}
  AND rank = 0 AND step >= {first:Int64} AND step < {last:Int64}
"""
_CELLS = """
SELECT rank, intDiv(step - {first:Int64}, {width:Int64}) AS c, max(duration_ns) AS longest,
  avg(wait_ns) AS wait, avg(duration_ns) AS mean
FROM steps WHERE tenant = {tenant:String} AND job = {job:String} AND attempt = {attempt:Int32}
  AND step >= {first:Int64} AND step < {last:Int64}
  AND start_ns >= {from_ns:Int64} AND start_ns < {to_ns:Int64} GROUP BY rank, c
"""


def job_page(reader: Reader, name: str) -> answers.Job:
    detail = queries.job(reader, name)
    found = queries.findings(reader, name)
    attempt = max((row.attempt for row in detail.attempts), default=0)
    recent, before = _recent(reader, name, detail)
    ranks = queries.ranks(reader, name, Span(max(0, detail.row.updated_ns - DAY_NS), 1 << 62))
    # Ranks go in step: the first tells for all, and its rows lie together.
    rank = min((row.rank for row in ranks), default=0)
    steps = reader.select(_STEPS, job=name, attempt=attempt, rank=rank)
    first, last, begin_ns, end_ns = (int(value) for value in steps[0]) if steps else (0,) * 4
    return answers.Job(
        now_ns=reader.now_ns,
        headline=headline(detail, found, recent, before),
        row=detail.row,
        attempt=attempt,
        attempts=list(detail.attempts),
        facts=dict(detail.facts),
        quantiles_ns=detail.quantiles_ns,
        waste=detail.waste,
        losses=detail.losses,
        step_ns=recent,
        earlier_step_ns=before,
        first_step=first,
        last_step=last,
        first_step_ns=begin_ns,
        last_step_ns=end_ns,
        ranks=list(ranks),
        findings=list(found),
        events=_events(detail, found, queries.captures(reader, name)),
        is_partial=reader.is_partial,
    )


def headline(
    detail: JobDetail, found: list[FindingRow], recent: float | None, before: float | None
) -> str:
    if recent is None:
        if detail.row.steps:
            text = f"Mean step {duration(detail.row.step_ns)}"
        else:
            return "No step of this job has arrived yet."
    else:
        text = f"Step {duration(recent)}"
    if recent and before and abs(recent / before - 1) >= NOTICED_RATIO:
        ratio = recent / before - 1
        word = "slower" if ratio > 0 else "faster"
        text += f", {100 * abs(ratio):.0f} % {word} than before"
    open_ones = [finding for finding in found if finding.state == "open"]
    if not open_ones:
        return f"{text}. Nothing is found to be wrong with it."
    worst = max(open_ones, key=lambda finding: finding.gain_high_ratio)
    evidence = f" ({worst.evidence[0]})" if worst.evidence else ""
    return f"{text}: {worst.title}{evidence}."


def _recent(reader: Reader, name: str, detail: JobDetail) -> tuple[float | None, float | None]:
    """The mean step of the last ten minutes, and that of a day before them."""
    end_ns = detail.row.updated_ns + 1
    recent_ns = end_ns - RECENT_NS
    bounds = {"from_ns": recent_ns - DAY_NS, "recent_ns": recent_ns, "to_ns": end_ns}
    total, count, old_total, old_count = reader.select(_MEAN, job=name, **bounds)[0]
    recent = int(total) / int(count) if count else None
    return recent, int(old_total) / int(old_count) if old_count else None


def _events(
    detail: JobDetail, found: list[FindingRow], taken: list[queries.CaptureRow]
) -> list[answers.Event]:
    events = [
        answers.Event(row.started_ns, "start" if row.attempt == 0 else "restart", "")
        for row in detail.attempts
    ]
    events += [answers.Event(row.opened_ns, "finding", row.title) for row in found]
    events += [answers.Event(row.requested_ns, "capture", row.reason) for row in taken]
    return sorted(events, key=lambda event: event.time_ns)


def heat(reader: Reader, name: str, value: str, first: int, last: int, columns: int) -> bytes:
    """An Arrow stream with one column, the map row by row: nanoseconds, not a number where
    nothing was measured. Rows are the ranks from 0 on; each has `columns` cells."""
    if value not in VALUES:
        raise UsageError(f"value={value!r}: one of {', '.join(VALUES)}")
    if not 0 <= first < last or not 1 <= columns <= 4096:
        raise UsageError("first and last are steps, columns is between 1 and 4096")
    width = -(-(last - first) // columns)
    attempt = int(
        reader.select(
            "SELECT max(attempt) FROM ranks WHERE tenant = {tenant:String} AND job = {job:String}",
            job=name,
        )[0][0]
    )
    begin_ns, end_ns = _time_of(reader, name, attempt, first, last)
    parameters = {"job": name, "attempt": attempt, "first": first, "last": last, "width": width}
    parameters |= {"from_ns": begin_ns, "to_ns": end_ns}
    table = reader.store.select_arrow(_CELLS, {"tenant": reader.tenant, **parameters})
    rank = table["rank"].to_numpy()
    if not rank.size:
        return stream({"value": np.empty(0, np.float32)})
    rows = int(rank.max()) + 1
    if rows * columns > 8 * CELLS_LIMIT:
        raise UsageError(f"{rows} ranks: ask for at most {8 * CELLS_LIMIT // rows} columns")
    chosen = table["longest" if value == "time" else "wait"].to_numpy()
    cells = np.full((rows, columns), np.nan)
    cells[rank, table["c"].to_numpy()] = chosen
    if value == "lateness":
        cells = _lateness(cells)
    return stream({"value": cells.astype(np.float32).reshape(-1)})


def _time_of(reader: Reader, job: str, attempt: int, first: int, last: int) -> tuple[int, int]:
    """When these steps were, by the first rank: rows lie by rank and time, so that the engine
    need not read all of a long job. What ranks did further apart in time shows as not measured."""
    bounds = {"job": job, "attempt": attempt, "first": first, "last": last}
    found = reader.select(_TIME, **bounds)
    if not found or not int(found[0][2]):
        return 0, 1 << 62
    return int(found[0][0]) - APART_NS, int(found[0][1]) + APART_NS


def _lateness(wait: Float64) -> Float64:
    """Who waits least came last: how much later than the first."""
    longest = np.where(np.isnan(wait), -np.inf, wait).max(axis=0)
    late: Float64 = longest - wait
    return late
