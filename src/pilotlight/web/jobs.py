"""One job: the sentence about it, its ranks, findings, events."""

from __future__ import annotations

from pilotlight.store import queries
from pilotlight.store.queries import FindingRow, JobDetail, JobRow, Reader, Span
from pilotlight.web import answers
from pilotlight.web.events import events_of
from pilotlight.web.facts import changes_of
from pilotlight.web.headline import duration, within
from pilotlight.web.late import late_ratio
from pilotlight.web.pace import NOTICED_RATIO, Pace, pace_of

DAY_NS = 86_400_000_000_000
LATE_RATIO = 0.25
NOTHING_WRONG = ". Nothing is found to be wrong with it."


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
    # What has ended has no now: its mean step is that of all its time.
    pace = pace_of(reader, name) if detail.row.state == "running" else Pace()
    worst = worst_of(detail.row, found)
    late = None
    if worst is not None and len(worst.ranks) == 1:
        place = detail.last_step, detail.last_step_ns
        late = late_ratio(reader, name, attempt, worst.ranks[0], *place)
    return answers.Job(
        now_ns=reader.now_ns,
        headline=headline(detail, pace, worst, late),
        row=detail.row,
        attempt=attempt,
        attempts=list(detail.attempts),
        facts=dict(detail.facts),
        quantiles_ns=detail.quantiles_ns,
        waste=detail.waste,
        losses=detail.losses,
        step_ns=pace.recent_ns,
        earlier_step_ns=pace.earlier_ns,
        earlier=pace.earlier,
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


def worst_of(row: JobRow, found: list[FindingRow]) -> FindingRow | None:
    """Of those that are open, or were when the job ended: that closes them and mends nothing."""
    opened = [one for one in found if one.state == "open" or is_last(row, one.closed_ns)]
    return max(opened, key=lambda finding: finding.gain_high_ratio, default=None)


def is_last(row: JobRow, closed_ns: int) -> bool:
    """Whether a finding that was closed then had lasted to the end of the job."""
    return row.state != "running" and closed_ns >= (row.ended_ns or row.updated_ns)


def headline(
    detail: JobDetail, pace: Pace, worst: FindingRow | None, late_ratio: float | None
) -> str:
    """How it ended if not well, how long a step takes, whether that has changed, who is late and
    why."""
    end = _end(detail.row)
    if pace.recent_ns is None and not detail.row.steps:
        if detail.row.state == "running":
            return "No step of this job has arrived yet."
        return f"{end or 'Finished'}; no step of it has arrived."
    if pace.recent_ns is None:
        mean = f"ean step {duration(detail.row.step_ns)}"
        text = f"{end}; m{mean}" if end else f"M{mean}"
    else:
        text = f"Step {duration(pace.recent_ns)}"
    text += pace.words
    if worst is None:
        # What became slower has something wrong with it, found or not.
        is_slower = (pace.change_ratio or 0.0) >= NOTICED_RATIO
        return text + ("; no rule has found why." if is_slower or end else NOTHING_WRONG)
    if late_ratio is None or late_ratio < LATE_RATIO:
        evidence = f" ({worst.evidence[0]})" if worst.evidence else ""
        return f"{text}: {within(worst.title)}{evidence}."
    rank = worst.ranks[0]
    return f"{text}; rank {rank} is late in {100 * late_ratio:.0f} % of steps: {_why(worst)}."


def _end(row: JobRow) -> str:
    """Of a job that did not end well; nothing of others."""
    if row.state == "lost":
        return "Lost: nothing comes from it any more"
    if row.state != "failed":
        return ""
    if row.signal:
        return f"Failed by signal {row.signal}"
    return f"Failed with exit code {row.exit_code}" if row.exit_code else "Failed"


def _why(finding: FindingRow) -> str:
    """Of a finding about one rank, which was named before."""
    name = f"rank {finding.ranks[0]}"
    title = within(finding.title)
    if title.startswith(name):
        # That it holds up the others was just said; what is left is by how much, and in what.
        return "; ".join(finding.evidence[1:]) or title.removeprefix(name).strip()
    title = title.replace(f"the device of {name}", "its GPU")
    return f"{title} ({finding.evidence[0]})" if finding.evidence else title
