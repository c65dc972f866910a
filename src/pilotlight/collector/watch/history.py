"""A running job against earlier runs of the same command."""

from __future__ import annotations

from dataclasses import replace

from pilotlight.collector.watch.recent import RecentJob
from pilotlight.insights.finding import Finding
from pilotlight.insights.online import Summary, regressions
from pilotlight.ship.wire import PARTS
from pilotlight.store.store import Store

RUN_BEFORE = "the run before: "
_RUNS = 5
_LEAST_STEPS = 50

_EARLIER = """
SELECT job, attempt FROM jobs FINAL
WHERE tenant = {tenant:String} AND command = {command:String} AND world_size = {world:Int32}
  AND (job, attempt) != ({job:String}, {attempt:Int32}) AND started_ns < {started:Int64}
GROUP BY job, attempt ORDER BY max(updated_ns) DESC LIMIT {runs:UInt32}
"""
_KEYS = ("duration_ns", *PARTS)
_SUMMARY = f"""
SELECT count(), {", ".join(f"quantile(0.5)({key}), stddevPop({key})" for key in _KEYS)}
FROM steps WHERE tenant = {{tenant:String}} AND job = {{job:String}}
  AND attempt = {{attempt:Int32}}
"""


def regressions_of(store: Store, job: RecentJob) -> tuple[Finding, ...]:
    """What takes longer than it did; () where there is no earlier run."""
    if not job.command or not job.started_ns:
        return ()
    earlier = store.select(
        _EARLIER,
        {
            "tenant": job.tenant,
            "command": job.command,
            "world": job.world_size,
            "job": job.job,
            "attempt": job.attempt,
            "started": job.started_ns,
            "runs": _RUNS,
        },
    )
    if not earlier:
        return ()
    now = _summary(store, job.tenant, job.job, job.attempt)
    runs = [(str(name), _summary(store, job.tenant, name, int(n))) for name, n in earlier]
    runs = [(name, summary) for name, summary in runs if summary]
    if not now or not runs:
        return ()
    history = [summary for _, summary in reversed(runs)]
    found = regressions(now, history, now["step"].typical_ns)
    last, _ = runs[0]
    # By this line the page finds what to compare the job with.
    said = () if last == job.job else (f"{RUN_BEFORE}{last}",)
    return tuple(replace(one, evidence=(*one.evidence, *said)) for one in found)


def _summary(store: Store, tenant: str, job: str, attempt: int) -> dict[str, Summary]:
    (row,) = store.select(_SUMMARY, {"tenant": tenant, "job": job, "attempt": attempt})
    count = int(row[0])
    if count < _LEAST_STEPS:
        return {}
    values = [float(value) for value in row[1:]]
    found = {}
    for index, key in enumerate(_KEYS):
        typical, deviation = values[2 * index], values[2 * index + 1]
        name = "step" if key == "duration_ns" else key.removesuffix("_ns")
        if typical > 0:
            found[name] = Summary(typical, deviation, count)
    return found
