"""How much slower a job is than if all its ranks were alike, and which rank or stage is why.

The method of "Understanding Stragglers in Large Model Training Using What-if Analysis" (OSDI 2025):
replay the job with operations replaced by what they would take on a typical rank.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from pilotlight.model.pipeline import Pipeline
from pilotlight.trace.trace import Bool

SLOW_FROM = 1.1
WORST_RANKS_RATIO = 0.03


@dataclass(frozen=True)
class RankSlowdown:
    """`slowdown_ratio`: of the job if only this rank were as it is and the others typical.
    `gain_ratio`: what the job would gain if this rank alone were typical."""

    rank: int
    data_rank: int
    stage: int
    slowdown_ratio: float
    gain_ratio: float


@dataclass(frozen=True)
class StageSlowdown:
    """`share`: how much of what the job loses is gone with the ranks of this stage typical."""

    stage: int
    share: float
    gain_ratio: float


@dataclass(frozen=True)
class SlowdownReport:
    measured_step_ns: float
    replayed_step_ns: float
    ideal_step_ns: float
    slowdown_ratio: float
    replay_error_ratio: float
    worst_ranks_share: float
    ranks: tuple[RankSlowdown, ...]
    stages: tuple[StageSlowdown, ...]
    kinds: dict[str, float]

    @property
    def culprit(self) -> RankSlowdown | None:
        """The rank at fault, if the job is slow and a few ranks explain it."""
        if self.slowdown_ratio < SLOW_FROM or self.worst_ranks_share < 0.5:
            return None
        return self.ranks[0]

    @property
    def slow_stage(self) -> StageSlowdown | None:
        """The stage with too much work, if that explains a slow job and no rank does."""
        if self.slowdown_ratio < SLOW_FROM or self.culprit or len(self.stages) < 2:
            return None
        return self.stages[0] if self.stages[0].share >= 0.5 else None


def slowdown(pipeline: Pipeline) -> SlowdownReport:
    """Ranks come in the order of their slowdown, stages of their share, the worst first."""
    real, ideal = pipeline.operation_ns(), pipeline.ideal_ns()

    def step_ns(typical: Bool) -> float:
        return float(pipeline.step_ns(np.where(typical, ideal, real)).mean())

    nothing = np.zeros(len(pipeline.rank), np.bool_)
    replayed, best = step_ns(nothing), step_ns(~nothing)
    ranks = []
    for rank in pipeline.ranks:
        mine = pipeline.rank == rank
        place = pipeline.rank_place[int(rank)]
        alone, without = step_ns(~mine), step_ns(mine)
        ranks.append(RankSlowdown(int(rank), *place, alone / best, 1 - without / replayed))
    ranks.sort(key=lambda row: -row.slowdown_ratio)
    worst = [row.rank for row in ranks[: max(1, round(WORST_RANKS_RATIO * len(ranks)))]]
    lost = max(replayed - best, 1.0)
    stages = []
    for stage in sorted({place[1] for place in pipeline.rank_place.values()}):
        there = [rank for rank, place in pipeline.rank_place.items() if place[1] == stage]
        saved = replayed - step_ns(np.isin(pipeline.rank, there))
        stages.append(StageSlowdown(stage, saved / lost, saved / replayed))
    stages.sort(key=lambda row: -row.share)
    kinds = {
        name: step_ns(pipeline.kind != i) / best
        for i, name in enumerate(pipeline.kinds)
        if (pipeline.kind == i).any()
    }
    measured = float(pipeline.measured_ns.mean())
    return SlowdownReport(
        measured_step_ns=measured,
        replayed_step_ns=replayed,
        ideal_step_ns=best,
        slowdown_ratio=replayed / best,
        replay_error_ratio=abs(replayed / measured - 1),
        worst_ranks_share=(replayed - step_ns(np.isin(pipeline.rank, worst))) / lost,
        ranks=tuple(ranks),
        stages=tuple(stages),
        kinds=kinds,
    )
