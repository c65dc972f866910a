"""What the rules find in a job now, from its latest steps."""

from __future__ import annotations

from pilotlight.collector.watch.recent import RecentJob
from pilotlight.insights.finding import Finding
from pilotlight.insights.online import diagnose_windows


def found_in(job: RecentJob, now_ns: int | None) -> list[Finding]:
    """In the last few steps and in many; `now_ns`: until when its agents have told, None where one
    of them is silent: a node that tells nothing does not hang because of that."""
    long = diagnose_windows(job.windows(), now_ns, told=job.told_windows(False)).findings
    if any(one.cause == "hang" for one in long):
        return list(long)
    short = diagnose_windows(job.short_windows(), told=job.told_windows(True)).findings
    return list({(one.rule, one.cause, one.rank): one for one in (*long, *short)}.values())
