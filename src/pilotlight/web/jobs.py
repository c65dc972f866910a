"""One job: the sentence about it, its ranks, findings, events."""

from __future__ import annotations

from pilotlight.store import queries
from pilotlight.store.queries import FindingRow, JobDetail, Reader, Span
from pilotlight.web import answers
from pilotlight.web.events import events_of
from pilotlight.web.facts import changes_of
from pilotlight.web.headline import duration, within

DAY_NS = 86_400_000_000_000
RECENT_NS = 600_000_000_000
NOTICED_RATIO = 0.02

_MEAN = """
SELECT sumIf(s.total_ns, s.time_ns >= {recent_ns:Int64}),
  sumIf(s.count, s.time_ns >= {recent_ns:Int64}),
  sumIf(s.total_ns, s.time_ns < {recent_ns:Int64}), sumIf(s.count, s.time_ns < {recent_ns:Int64})
FROM job_steps_10s AS s
WHERE tenant = {tenant:String} AND job = {job:String} AND s.time_ns >= {from_ns:Int64}
  AND s.time_ns < {to_ns:Int64}
"""


def job_page(reader: Reader, name: str) -> answers.Job:
    findings_of = reader.beside(lambda: queries.findings(reader, name))
    cost_of = reader.beside(lambda: queries.job_cost(reader, name))
    detail = queries.job(reader, name)
    # What the page of any job needs is under way; from here on it depends on what this one is.
    since = Span(max(0, detail.row.updated_ns - DAY_NS), 1 << 62)
    attempt = max((row.attempt for row in detail.attempts), default=0)
    ranks_of = reader.beside(lambda: queries.ranks(reader, name, since, attempt))
    found = findings_of.result()
    events_in = reader.beside(lambda: events_of(reader, detail, found))
    changes = changes_of(reader, name) if len(detail.attempts) > 1 else []
    recent, before = _recent(reader, name, detail)
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
        first_step=detail.first_step,
        last_step=detail.last_step,
        first_step_ns=detail.first_step_ns,
        last_step_ns=detail.last_step_ns,
        ranks=list(ranks_of.result()),
        findings=list(found),
        events=events_in.result(),
        changes=changes,
        cost=cost_of.result(),
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
    return f"{text}: {within(worst.title)}{evidence}."


def _recent(reader: Reader, name: str, detail: JobDetail) -> tuple[float | None, float | None]:
    """The mean step of the last ten minutes, and that of a day before them."""
    end_ns = detail.row.updated_ns + 1
    recent_ns = end_ns - RECENT_NS
    bounds = {"from_ns": recent_ns - DAY_NS, "recent_ns": recent_ns, "to_ns": end_ns}
    total, count, old_total, old_count = reader.select(_MEAN, job=name, **bounds)[0]
    recent = int(total) / int(count) if count else None
    return recent, int(old_total) / int(old_count) if old_count else None
