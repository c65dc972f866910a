"""What happened to a job while it ran, to be marked on its charts."""

from __future__ import annotations

from collections.abc import Sequence

from pilotlight.store import queries
from pilotlight.store.queries import FindingRow, JobDetail, Reader
from pilotlight.web import answers
from pilotlight.web.headline import duration

MOST_OF_A_KIND = 100
APART_NS = 30_000_000_000
WINDOW_NS = 10_000_000_000

# What takes time within steps, by the part that it is counted as.
PARTS = {"compile_ns": "recompilation", "checkpoint_ns": "checkpoint"}

_WITHIN = """
SELECT s.time_ns AS t, sum(s.compile_ns) AS c, sum(s.checkpoint_ns) AS k FROM job_steps_10s AS s
WHERE tenant = {tenant:String} AND job = {job:String} GROUP BY t HAVING c > 0 OR k > 0 ORDER BY t
"""


def events_of(
    reader: Reader, detail: JobDetail, found: Sequence[FindingRow]
) -> list[answers.Event]:
    """In order of time."""
    name, ranks = detail.row.job, max(1, detail.row.ranks)
    events = [
        answers.Event(row.started_ns, "start" if row.attempt == 0 else "restart", "")
        for row in detail.attempts
    ]
    events += [answers.Event(row.opened_ns, "finding", row.title) for row in found]
    taken = queries.captures(reader, name)
    events += [answers.Event(row.requested_ns, "capture", row.reason) for row in taken]
    windows = reader.select(_WITHIN, job=name)
    for place, kind in enumerate(PARTS.values(), start=1):
        rows = [(int(row[0]), int(row[place])) for row in windows if int(row[place])]
        events += [
            answers.Event(begin_ns, kind, f"{duration(spent_ns / ranks)} a rank")
            for begin_ns, spent_ns in longest(stretches(rows))
        ]
    return sorted(events, key=lambda event: event.time_ns)


def stretches(windows: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """Begin and time spent, windows close to each other as one."""
    made: list[tuple[int, int]] = []
    last_ns = -1 << 62
    for time_ns, spent_ns in windows:
        if time_ns - last_ns <= WINDOW_NS + APART_NS:
            begin_ns, before_ns = made.pop()
            made.append((begin_ns, before_ns + spent_ns))
        else:
            made.append((time_ns, spent_ns))
        last_ns = time_ns
    return made


def longest(found: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """No more than a chart can show."""
    return sorted(found, key=lambda pair: -pair[1])[:MOST_OF_A_KIND]
