"""Jobs: which there are, how they go, what they cost."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from pilotlight.store.queries.reader import HOUR_NS, ONE_THREAD, Reader, Span
from pilotlight.store.store import Row


class JobRow(Struct, frozen=True):
    """All attempts of a job together; `gpu_hours` counts ranks, whether they have GPUs or not;
    `busy_ratio` is of step time."""

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
    has_gpus: bool
    busy_ratio: float | None
    open_findings: int
    lost: int


class Sums(Struct, frozen=True):
    """What is added up over the attempts and ranks of a job; `ranks` are the most at a time."""

    steps: int = 0
    total_ns: int = 0
    compute_ns: int = 0
    ranks: int = 0
    rank_ns: int = 0
    last_gpu: int = -1
    open_findings: int = 0
    lost: int = 0


# Of the newest attempt: whether it runs or failed on any node, and a node's exit that was no good.
_JOBS = (
    """
SELECT job, min(started_ns), max(jobs.updated_ns) AS latest, max(ended_ns), uniqExact(attempt),
  uniqExact(node), max(world_size), argMax((cluster, launcher, command), (attempt, updated_ns)),
  max((attempt, state = 'running')).2, max((attempt, state = 'failed')).2,
  max((attempt, exit_code != 0 OR signal != 0, exit_code, signal))
FROM jobs FINAL
WHERE tenant = {tenant:String} AND job IN (
  SELECT job FROM jobs FINAL
  WHERE tenant = {tenant:String} AND updated_ns >= {from_ns:Int64} AND started_ns < {to_ns:Int64}
  GROUP BY job ORDER BY max(updated_ns) DESC LIMIT {limit:UInt32})
GROUP BY job ORDER BY latest DESC LIMIT {limit:UInt32}
"""
    + ONE_THREAD
)

_TOTALS = """
SELECT job, sum(t.count), sum(t.total_ns), sum(t.compute_ns) FROM job_totals AS t
WHERE tenant = {tenant:String} AND {of_jobs} GROUP BY job
"""

# Before its ranks came, a launcher was told as the only rank of its job.
RANKS_AND_LENGTH = """
if(countIf(role = 'rank') > 0, countIf(role = 'rank'), count()) AS ranks,
  if(countIf(role = 'rank') > 0, sumIf(length, role = 'rank'), sum(length)) AS length,
  max(device) AS last_gpu
"""
_SIZES = (
    f"""
SELECT job, max(ranks), sum(length), max(last_gpu) FROM (
  SELECT job, attempt, {RANKS_AND_LENGTH} FROM (
    SELECT job, attempt, rank, role, max(gpu) AS device,
      max(if(ended_ns > 0, ended_ns, updated_ns)) - min(started_ns) AS length
    FROM ranks FINAL
    WHERE tenant = {{tenant:String}} AND {{of_jobs}} AND role IN ('rank', 'main')
    GROUP BY job, attempt, rank, role) GROUP BY job, attempt) GROUP BY job
"""
    + ONE_THREAD
)

_FINDINGS = """
SELECT job, count() FROM findings FINAL
WHERE tenant = {tenant:String} AND {of_jobs} AND state = 'open' GROUP BY job
"""

_LOSSES = """
SELECT job, sum(count) FROM losses WHERE tenant = {tenant:String} AND {of_jobs} GROUP BY job
"""

# With more than this the engine is faster to read all of a tenant's than to look for each.
_FEW_JOBS = 100


def jobs(reader: Reader, span: Span, limit: int = 200) -> list[JobRow]:
    """Those with news in the span, latest first."""
    found = reader.select(_JOBS, from_ns=span.from_ns, to_ns=span.to_ns, limit=limit)
    names = [row[0] for row in found]
    totals_of = reader.beside(lambda: _by_job(reader, _TOTALS, names))
    sizes_of = reader.beside(lambda: _by_job(reader, _SIZES, names))
    losses_of = reader.beside(lambda: _by_job(reader, _LOSSES, names))
    findings = _by_job(reader, _FINDINGS, names)
    totals, sizes, losses = totals_of.result(), sizes_of.result(), losses_of.result()
    nothing, alone, none = (0, 0, 0), (0, 0, -1), (0,)
    return [
        row_of(
            reader,
            row,
            Sums(
                *totals.get(row[0], nothing),
                *sizes.get(row[0], alone),
                *findings.get(row[0], none),
                *losses.get(row[0], none),
            ),
        )
        for row in found
    ]


def row_of(reader: Reader, news: Row, sums: Sums) -> JobRow:
    """`news` as _JOBS has it: what agents said of the job."""
    name, started_ns, updated_ns, ended_ns, attempts, nodes, world_size = news[:7]
    (cluster, launcher, command), is_running, has_failed, (_, _, exit_code, signal) = news[7:]
    state = state_of(reader, is_running, has_failed, updated_ns)
    steps, total_ns = sums.steps, sums.total_ns
    return JobRow(
        job=name,
        cluster=cluster,
        state=state,
        started_ns=started_ns,
        updated_ns=updated_ns,
        ended_ns=ended_ns if state not in ("running", "lost") else 0,
        attempts=attempts,
        nodes=nodes,
        ranks=sums.ranks,
        world_size=world_size,
        launcher=launcher,
        command=command,
        exit_code=exit_code,
        signal=signal,
        steps=steps // max(1, sums.ranks),
        step_ns=total_ns // steps if steps else 0,
        gpu_hours=sums.rank_ns / HOUR_NS,
        has_gpus=sums.last_gpu >= 0,
        busy_ratio=sums.compute_ns / total_ns if sums.compute_ns and total_ns else None,
        open_findings=sums.open_findings,
        lost=sums.lost,
    )


def state_of(reader: Reader, is_running: bool, has_failed: bool, updated_ns: int) -> str:
    """A job that is not heard any more and did not end is lost."""
    if is_running:
        return "running" if reader.now_ns - updated_ns < reader.patience_ns else "lost"
    return "failed" if has_failed else "finished"


def _by_job(reader: Reader, sql: str, names: Sequence[str]) -> dict[str, Row]:
    if len(names) <= _FEW_JOBS:
        found = reader.select(
            sql.replace("{of_jobs}", "job IN {jobs:Array(String)}"), jobs=list(names)
        )
    else:
        found = reader.select(sql.replace("{of_jobs}", "1"))
    return {row[0]: row[1:] for row in found}
