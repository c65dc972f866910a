"""One job: its attempts, facts, what its hours went to."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from pilotlight.errors import NotFound
from pilotlight.store.queries.jobs import (
    RANKS_AND_LENGTH,
    JobRow,
    Sums,
    jobs,
    row_of,
    state_of,
)
from pilotlight.store.queries.reader import HOUR_NS, Reader, Span
from pilotlight.store.schema import PARTS


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
    """Steps and their times are those of the newest attempt, as far as the store remembers them.
    The price of a GPU hour is 0 where the collector was not told it."""

    row: JobRow
    attempts: Sequence[Attempt]
    facts: dict[str, Any]
    quantiles_ns: dict[str, int]
    waste: Waste
    losses: dict[str, int]
    first_step: int
    last_step: int
    first_step_ns: int
    last_step_ns: int
    price_per_gpu_hour: float = 0.0
    currency: str = ""


@dataclass(frozen=True)
class _Totals:
    """All steps of an attempt, or those that one shard has."""

    attempt: int
    count: int
    total_ns: int
    first_step: int
    last_step: int
    first_ns: int
    last_ns: int
    parts_ns: dict[str, int]


@dataclass(frozen=True)
class _Sizes:
    """The ranks of an attempt, how long all of them were there together, and the highest number of
    a GPU that one of them has: -1 where there is none."""

    ranks: int
    length_ns: int
    last_gpu: int


@dataclass(frozen=True)
class _News:
    """What agents said of an attempt; `bad_exit`: whether there was one, its code and signal."""

    attempt: int
    cluster: str
    started_ns: int
    updated_ns: int
    ended_ns: int
    nodes: Sequence[str]
    world_size: int
    launcher: str
    command: str
    is_running: bool
    has_failed: bool
    bad_exit: tuple[bool, int, int]
    exit_code: int
    facts: str


_ATTEMPTS = """
SELECT attempt, argMax(cluster, updated_ns), min(started_ns), max(jobs.updated_ns), max(ended_ns),
  groupUniqArray(node), max(world_size), argMax(launcher, updated_ns), argMax(command, updated_ns),
  max(state = 'running'), max(state = 'failed'),
  max((exit_code != 0 OR signal != 0, exit_code, signal)), max(exit_code),
  argMax(facts, updated_ns)
FROM jobs FINAL
WHERE tenant = {tenant:String} AND job = {job:String} GROUP BY attempt ORDER BY attempt
"""

_TOTALS = f"""
SELECT attempt, count, total_ns, first_step, last_step, first_ns, last_ns, {", ".join(PARTS)}
FROM job_totals FINAL WHERE tenant = {{tenant:String}} AND job = {{job:String}}
"""

_SIZES = f"""
SELECT attempt, {RANKS_AND_LENGTH} FROM (
  SELECT attempt, rank, role, max(gpu) AS device,
    max(if(ended_ns > 0, ended_ns, updated_ns)) - min(started_ns) AS length
  FROM ranks FINAL
  WHERE tenant = {{tenant:String}} AND job = {{job:String}} AND role IN ('rank', 'main')
  GROUP BY attempt, rank, role) GROUP BY attempt
"""

_FINDINGS = """
SELECT count() FROM findings FINAL
WHERE tenant = {tenant:String} AND job = {job:String} AND state = 'open'
"""

_LOSSES = """
SELECT what, sum(count) FROM losses
WHERE tenant = {tenant:String} AND job = {job:String} GROUP BY what
"""


def job(reader: Reader, name: str) -> JobDetail:
    """NotFound names the latest jobs."""
    totals_of = reader.beside(lambda: _totals(reader, name))
    sizes_of = reader.beside(lambda: _sizes(reader, name))
    losses_of = reader.beside(lambda: reader.select(_LOSSES, job=name))
    quantiles_of = reader.beside(lambda: step_quantiles(reader, name))
    ((open_findings,),) = reader.select(_FINDINGS, job=name)
    news = [_News(*row) for row in reader.select(_ATTEMPTS, job=name)]
    if not news:
        others = [row.job for row in jobs(reader, Span(0, 1 << 62), 8)]
        told = f"there are: {', '.join(others)}" if others else "none has reported yet"
        raise NotFound(f"no job {name}; {told}")
    totals, sizes = totals_of.result(), sizes_of.result()
    losses = {str(what): int(count) for what, count in losses_of.result()}
    sums = Sums(
        steps=sum(one.count for one in totals),
        total_ns=sum(one.total_ns for one in totals),
        compute_ns=sum(one.parts_ns["compute_ns"] for one in totals),
        ranks=max((size.ranks for size in sizes.values()), default=0),
        rank_ns=sum(size.length_ns for size in sizes.values()),
        last_gpu=max((size.last_gpu for size in sizes.values()), default=-1),
        open_findings=int(open_findings),
        lost=sum(losses.values()),
    )
    newest = [one for one in totals if one.attempt == max(each.attempt for each in totals)]
    return JobDetail(
        row=_row(reader, name, news, sums),
        attempts=[
            Attempt(
                attempt=one.attempt,
                state="restarted"
                if one.is_running and one is not news[-1]
                else state_of(reader, one.is_running, one.has_failed, one.updated_ns),
                started_ns=one.started_ns,
                ended_ns=one.ended_ns,
                nodes=len(one.nodes),
                ranks=sizes.get(one.attempt, _Sizes(0, 0, -1)).ranks,
                exit_code=one.exit_code,
            )
            for one in news
        ],
        facts=_facts(news[-1].facts),
        quantiles_ns=quantiles_of.result(),
        waste=_waste(totals, sizes),
        losses=losses,
        first_step=min((one.first_step for one in newest), default=0),
        last_step=max((one.last_step for one in newest), default=0),
        first_step_ns=min((one.first_ns for one in newest), default=0),
        last_step_ns=max((one.last_ns for one in newest), default=0),
    )


def _row(reader: Reader, name: str, news: Sequence[_News], sums: Sums) -> JobRow:
    """As `jobs` has it."""
    last = news[-1]
    of_all = (
        min(one.started_ns for one in news),
        max(one.updated_ns for one in news),
        max(one.ended_ns for one in news),
        len(news),
        len({node for one in news for node in one.nodes}),
        max(one.world_size for one in news),
    )
    words = (last.cluster, last.launcher, last.command)
    of_last = (words, last.is_running, last.has_failed, (last.attempt, *last.bad_exit))
    return row_of(reader, (name, *of_all, *of_last), sums)


def step_quantiles(
    reader: Reader, name: str, quantiles: Sequence[float] = (0.5, 0.9, 0.99)
) -> dict[str, int]:
    """From the log-histogram: true to its bucket, which is at most 12.5 % wide, and never beyond
    the shortest and the longest step."""
    counts = reader.select(
        "SELECT bucket, sum(count) FROM step_histogram_1d "
        "WHERE tenant = {tenant:String} AND job = {job:String} GROUP BY bucket ORDER BY bucket",
        job=name,
    )
    if not counts:
        return {}
    ((least_ns, most_ns),) = reader.select(
        "SELECT min(s.min_ns), max(s.max_ns) FROM job_steps_1d AS s "
        "WHERE tenant = {tenant:String} AND job = {job:String}",
        job=name,
    )
    return {
        f"p{100 * quantile:g}": quantile_ns(counts, quantile, int(least_ns), int(most_ns))
        for quantile in quantiles
    }


def quantile_ns(
    counts: Sequence[tuple[int, int]], quantile: float, least_ns: int = 0, most_ns: int = 1 << 62
) -> int:
    """By buckets in their order and how many are in each, as if they lay evenly within it, as far
    as it is between the least and the most of all."""
    wanted = quantile * sum(count for _, count in counts)
    seen = 0
    for bucket, count in counts:
        if seen + count >= wanted:
            low, high = bucket_ns(bucket)
            low, high = max(low, least_ns), min(high, most_ns)
            return round(low + max(high - low, 0) * (wanted - seen) / count)
        seen += count
    return min(bucket_ns(counts[-1][0])[1], most_ns)


def bucket_ns(bucket: int) -> tuple[int, int]:
    """The shortest and the longest duration that docs/recording.md puts in this bucket."""
    if bucket < 8:
        return bucket, bucket
    octave, part = divmod(bucket, 8)
    return (8 + part) << (octave - 1), ((8 + part + 1) << (octave - 1)) - 1


def _waste(totals: Sequence[_Totals], sizes: dict[int, _Sizes]) -> Waste:
    """Where the rank hours of a job went."""
    gpu_ns = sum(size.length_ns for size in sizes.values())
    total_ns = sum(one.total_ns for one in totals)
    by_part = {part: sum(one.parts_ns[part] for one in totals) for part in PARTS}
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


def _totals(reader: Reader, name: str) -> list[_Totals]:
    found = []
    for row in reader.select(_TOTALS, job=name):
        attempt, count, total, first, last, begin, end, *parts = (int(value) for value in row)
        by_part = dict(zip(PARTS, parts, strict=True))
        found.append(_Totals(attempt, count, total, first, last, begin, end, by_part))
    return found


def _sizes(reader: Reader, name: str) -> dict[int, _Sizes]:
    return {
        int(attempt): _Sizes(int(ranks), int(length_ns), int(last_gpu))
        for attempt, ranks, length_ns, last_gpu in reader.select(_SIZES, job=name)
    }


def _facts(text: str) -> dict[str, Any]:
    try:
        facts = json.loads(text)
    except ValueError:
        return {}
    return facts if isinstance(facts, dict) else {}
