"""Which ranks have the same part of a model that is divided into stages."""

from __future__ import annotations

from collections import defaultdict

from pilotlight.insights.collective import PAIR, Collectives
from pilotlight.insights.finding import Remedy
from pilotlight.insights.job import Job


def like_its_peers(job: Job, column: int, roles: tuple[str, ...]) -> tuple[Remedy, ...]:
    """As if this rank were as fast as those that have the same to do, or, in a stage of its own, as
    all others. Nothing for a rank alone."""
    columns = same_work(job, column) or [i for i in range(len(job.ranks)) if i != column]
    peers = tuple(job.ranks[other].rank for other in columns)
    return (Remedy(ranks=(job.ranks[column].rank,), peers=peers, alike=roles),) if peers else ()


def same_work(job: Job, column: int) -> list[int]:
    """The columns of the other ranks with the same part of the model."""
    stages = stages_of(job, job.collectives) if job.collectives else []
    mine = next((columns for columns in stages if column in columns), range(len(job.ranks)))
    return [other for other in mine if other != column]


def stages_of(job: Job, matched: Collectives) -> list[list[int]]:
    """Columns of ranks with the same part of the model: they reduce gradients together, and hand
    their results on to others. Tensor ranks that work on one stage have the same partners."""
    number = {view.rank: column for column, view in enumerate(job.ranks)}
    depth: dict[int, int] = {}
    follows: dict[int, set[int]] = defaultdict(set)
    for what in matched.what:
        if what.is_pair:
            source, _, target = what.group.removeprefix(PAIR).partition(" to ")
            if int(source) in number and int(target) in number:
                follows[number[int(source)]].add(number[int(target)])
    # Forward and backward both are pairs; lower ranks come first, as in all launchers.
    columns = sorted({*follows, *(t for each in follows.values() for t in each)})
    for column in columns:
        before = [depth[s] for s in columns if column in follows[s] and s < column and s in depth]
        depth[column] = max(before, default=-1) + 1
    stages: dict[int, list[int]] = defaultdict(list)
    for column, stage in depth.items():
        stages[stage].append(column)
    return [stages[stage] for stage in sorted(stages)]
