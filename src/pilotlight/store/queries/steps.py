"""Steps over time and over ranks, at the level of detail that a question needs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from msgspec import Struct

from pilotlight.ship.wire import PARTLY_RECKONED, RECKONED
from pilotlight.store.queries.reader import Reader, Span, bounded, grid, sums_period
from pilotlight.store.schema import PARTS

MOST_CELLS = 200_000
_PART_NAMES = tuple(part.removesuffix("_ns") for part in PARTS)
_NEWEST = "(SELECT max(attempt) FROM ranks WHERE tenant = {tenant:String} AND job = {job:String})"


class RankRow(Struct, frozen=True):
    """One rank of the newest attempt; `step` is the last that it finished. `is_reckoned`: what some
    of its steps waited for others was not told but reckoned from other steps."""

    rank: int
    node: str
    gpu: int
    gpu_name: str
    pid: int
    role: str
    state: str
    started_ns: int
    updated_ns: int
    step: int
    steps: int
    step_ns: int
    slowest_ns: int
    parts_ns: dict[str, int]
    records_dropped: int
    is_reckoned: bool = False


@dataclass(frozen=True)
class StepRow:
    """`is_reckoned`: what it waited for others was not told but reckoned from other steps."""

    rank: int
    step: int
    start_ns: int
    duration_ns: int
    parts_ns: dict[str, int]
    is_reckoned: bool


@dataclass(frozen=True)
class Series:
    """Windows of `period_ns`; one list a column, of the same length."""

    period_ns: int
    time_ns: list[int]
    count: list[int]
    mean_ns: list[int]
    min_ns: list[int]
    max_ns: list[int]


@dataclass(frozen=True)
class Breakdown:
    """Nanoseconds over all ranks a window, by part; `other` is step time that no part explains."""

    period_ns: int
    time_ns: list[int]
    total_ns: list[int]
    parts_ns: dict[str, list[int]]


@dataclass(frozen=True)
class Heatmap:
    """The mean step of each rank and window, in order of rank and time."""

    period_ns: int
    rank: list[int]
    time_ns: list[int]
    mean_ns: list[int]
    is_cut: bool


def ranks(reader: Reader, job: str, span: Span, attempt: int | None = None) -> list[RankRow]:
    """Of the newest attempt, unless another is named."""
    sums = ", ".join(f"sum(s.{part})" for part in PARTS)
    period, begin_ns = sums_period(span, reader.finest("steps", span))
    of_attempt = f"attempt = {_NEWEST if attempt is None else '{attempt:Int32}'}"
    times_of = reader.beside(
        lambda: reader.select(
            f"SELECT rank, sum(s.count), sum(s.total_ns), max(s.max_ns), {sums} "
            f"FROM steps_{period} AS s WHERE tenant = {{tenant:String}} AND job = {{job:String}} "
            f"AND {of_attempt} "
            "AND time_ns >= {from_ns:Int64} AND time_ns < {to_ns:Int64} GROUP BY rank",
            job=job,
            attempt=attempt,
            from_ns=begin_ns,
            to_ns=span.to_ns,
        )
    )
    reckoned_of = reader.beside(
        lambda: reader.select(
            "SELECT max(JSONExtractString(facts, 'communication') = {said:String}) FROM jobs FINAL "
            "WHERE tenant = {tenant:String} AND job = {job:String} "
            "AND ({attempt:Int32} < 0 OR attempt = {attempt:Int32})",
            job=job,
            attempt=-1 if attempt is None else attempt,
            said=PARTLY_RECKONED,
        )
    )
    found = reader.select(
        "SELECT rank, node, gpu, gpu_name, pid, role, how, started_ns, updated_ns, step, "
        "records_dropped, ended_ns > 0 FROM ranks FINAL WHERE tenant = {tenant:String} "
        f"AND job = {{job:String}} AND role IN ('rank', 'main') AND {of_attempt} "
        "ORDER BY rank, node, process",
        job=job,
        attempt=attempt,
    )
    # Before its ranks came, their launcher was told as the only process of the job.
    is_launched = any(row[5] == "rank" for row in found)
    found = [row for row in found if row[5] == "rank" or not is_launched]
    times = {row[0]: row[1:] for row in times_of.result()}
    is_reckoned = any(row[0] for row in reckoned_of.result())
    nothing = (0,) * (3 + len(PARTS))
    rows = []
    for rank, node, gpu, gpu_name, pid, role, how, started, updated, step, dropped, ended in found:
        count, total, slowest, *parts = times.get(rank, nothing)
        rows.append(
            RankRow(
                rank=rank,
                node=node,
                gpu=gpu,
                gpu_name=gpu_name,
                pid=pid,
                role=role,
                state=how or ("ended" if ended else "running"),
                started_ns=started,
                updated_ns=updated,
                step=step,
                steps=count,
                step_ns=total // count if count else 0,
                slowest_ns=slowest,
                parts_ns=_parts(parts),
                records_dropped=dropped,
                is_reckoned=is_reckoned,
            )
        )
    return rows


def recent_steps(
    reader: Reader, job: str, span: Span, rank: int | None = None, limit: int = 200
) -> list[StepRow]:
    """Single steps, latest first; the store keeps them for two weeks."""
    parts = ", ".join(PARTS)
    found = reader.select(
        f"SELECT rank, step, start_ns, duration_ns, bitAnd(known, {RECKONED}) > 0, {parts} "
        "FROM steps WHERE tenant = {tenant:String} AND job = {job:String} "
        f"AND {bounded('steps', 'start_ns')} AND ({{rank:Int32}} < 0 OR rank = {{rank:Int32}}) "
        "ORDER BY start_ns DESC LIMIT {limit:UInt32}",
        job=job,
        from_ns=span.from_ns,
        to_ns=span.to_ns,
        rank=-1 if rank is None else rank,
        limit=limit,
    )
    return [
        StepRow(
            rank=int(of_rank),
            step=int(step),
            start_ns=int(start_ns),
            duration_ns=int(duration_ns),
            parts_ns=_parts([int(value) for value in rest]),
            is_reckoned=bool(is_reckoned),
        )
        for of_rank, step, start_ns, duration_ns, is_reckoned, *rest in found
    ]


def step_series(
    reader: Reader, job: str, span: Span, rank: int | None = None, points: int = 600
) -> Series:
    """The job's steps over time, or those of one rank."""
    finest = reader.finest("job_steps" if rank is None else "steps", span)
    period, width_ns, begin_ns = grid(span, points, finest)
    if rank is None:
        table = f"job_steps_{period}" if period != "1h" else "job_steps_5m"
    else:
        table = f"steps_{period}"
    found = reader.select(
        f"SELECT intDiv(s.time_ns, {width_ns}) * {width_ns} AS t, sum(s.count), sum(s.total_ns), "
        f"min(s.min_ns), max(s.max_ns) FROM {table} AS s "
        "WHERE tenant = {tenant:String} AND job = {job:String} AND s.time_ns >= {from_ns:Int64} "
        "AND s.time_ns < {to_ns:Int64}"
        + ("" if rank is None else " AND rank = {rank:Int32}")
        + " GROUP BY t ORDER BY t",
        job=job,
        from_ns=begin_ns,
        to_ns=span.to_ns,
        rank=-1 if rank is None else rank,
    )
    return Series(
        period_ns=width_ns,
        time_ns=[int(row[0]) for row in found],
        count=[int(row[1]) for row in found],
        mean_ns=[int(row[2]) // max(1, int(row[1])) for row in found],
        min_ns=[int(row[3]) for row in found],
        max_ns=[int(row[4]) for row in found],
    )


def breakdown(reader: Reader, job: str, span: Span, points: int = 600) -> Breakdown:
    """Where the step time of all ranks went, over time."""
    period, width_ns, begin_ns = grid(span, points, reader.finest("job_steps", span))
    table = f"job_steps_{period}" if period != "1h" else "job_steps_5m"
    sums = ", ".join(f"sum(s.{part})" for part in PARTS)
    found = reader.select(
        f"SELECT intDiv(s.time_ns, {width_ns}) * {width_ns} AS t, sum(s.total_ns), {sums} "
        f"FROM {table} AS s WHERE tenant = {{tenant:String}} AND job = {{job:String}} "
        "AND s.time_ns >= {from_ns:Int64} AND s.time_ns < {to_ns:Int64} GROUP BY t ORDER BY t",
        job=job,
        from_ns=begin_ns,
        to_ns=span.to_ns,
    )
    total = [int(row[1]) for row in found]
    parts = {
        part.removesuffix("_ns"): [int(row[2 + index]) for row in found]
        for index, part in enumerate(PARTS)
    }
    known = [sum(values) for values in zip(*parts.values(), strict=True)]
    parts["other"] = [max(0, a - b) for a, b in zip(total, known, strict=True)]
    return Breakdown(width_ns, [int(row[0]) for row in found], total, parts)


def step_heatmap(
    reader: Reader, job: str, span: Span, points: int = 300, ranks: Sequence[int] = ()
) -> Heatmap:
    """Each rank's mean step a window; `is_cut` if there were more cells than are handed out."""
    period, width_ns, begin_ns = grid(span, points, reader.finest("steps", span))
    found = reader.select(
        f"SELECT rank, intDiv(s.time_ns, {width_ns}) * {width_ns} AS t, "
        "intDiv(sum(s.total_ns), greatest(sum(s.count), 1)) "
        f"FROM steps_{period} AS s WHERE tenant = {{tenant:String}} AND job = {{job:String}} "
        "AND s.time_ns >= {from_ns:Int64} AND s.time_ns < {to_ns:Int64} "
        "AND (empty({ranks:Array(Int32)}) OR rank IN {ranks:Array(Int32)}) "
        f"GROUP BY rank, t ORDER BY rank, t LIMIT {MOST_CELLS + 1}",
        job=job,
        from_ns=begin_ns,
        to_ns=span.to_ns,
        ranks=list(ranks),
    )
    kept = found[:MOST_CELLS]
    return Heatmap(
        period_ns=width_ns,
        rank=[int(row[0]) for row in kept],
        time_ns=[int(row[1]) for row in kept],
        mean_ns=[int(row[2]) for row in kept],
        is_cut=len(found) > MOST_CELLS,
    )


def _parts(values: Sequence[int]) -> dict[str, int]:
    """Only those that are known."""
    return {part: value for part, value in zip(_PART_NAMES, values, strict=True) if value}
