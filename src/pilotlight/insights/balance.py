"""Rules about how work is divided: stages, samples, experts."""

from __future__ import annotations

import re
from collections import defaultdict

import numpy as np

from pilotlight.insights.breakdown import kernel_times
from pilotlight.insights.compute import device_pace
from pilotlight.insights.finding import Finding, Remedy, Verdict, percent
from pilotlight.insights.job import Job
from pilotlight.insights.kernel import Category, category
from pilotlight.insights.noise import launch_noise
from pilotlight.insights.rank import RankView
from pilotlight.insights.stage import stages_of
from pilotlight.trace.interval import union
from pilotlight.trace.trace import Bool, Float64, Kind

STAGE_RATIO = 0.015
STAGE_HIGH_RATIO = 0.05
IMBALANCE_RATIO = 0.015
VARYING_SHARE = 0.5
SELDOM_RATIO = 0.10
# The largest of some ranks is by chance two or three standard deviations above their mean.
CHANCE_SPREADS = 4.0
MIN_STEPS = 3
EXPERT_RATIO = 0.005
EXPERT_HIGH_RATIO = 0.30
SPREADS = 5.0
FAR_RATIO = 0.05

_EXPERT = re.compile(r"expert|moe|grouped_?gemm|grouped_?mm", re.IGNORECASE)


def stage_imbalance(job: Job) -> Verdict:
    """A28: a stage of the pipeline has more to compute than the others."""
    matched = job.collectives
    if matched is None or not matched.is_pair.any():
        return Verdict(missing="no transfers between stages that name the two ranks")
    stages = stages_of(job, matched)
    if len(stages) < 2:
        return Verdict(missing="fewer than two stages among the traced ranks")
    compute = job.step_compute_ns
    per_stage = np.array([compute[columns].mean(axis=0) for columns in stages])
    means = per_stage.mean(axis=1)
    worst = int(means.argmax())
    others = np.delete(means, worst)
    excess_ns = float(means[worst] - others.mean())
    spread = float(np.abs(others - others.mean()).max())
    step_ns = job.step_ns
    ratio = excess_ns * (len(stages) - 1) / len(stages) / step_ns
    if ratio < STAGE_RATIO or excess_ns < SPREADS * spread:
        return Verdict()
    paces = [device_pace(job, job.ranks[column].rank) or 1.0 for column in stages[worst]]
    at_usual_pace = float(means[worst]) / max(1.0, float(np.median(paces)))
    if at_usual_pace - float(others.mean()) < 0.5 * excess_ns:
        return Verdict()
    if _is_one_rank(compute, stages[worst], excess_ns):
        return Verdict()
    ranks = [job.ranks[column].rank for column in stages[worst]]
    return Verdict(
        (
            Finding(
                rule="A28",
                cause="stage_imbalance",
                title="A stage of the pipeline has more work than the others",
                rank=ranks[0],
                place=f"ranks {', '.join(map(str, ranks[:8]))}",
                evidence=(
                    f"its ranks compute {percent(means[worst] / others.mean() - 1)} longer",
                    f"only there: {_own_kernels(job, stages, worst) or 'more of the same kernels'}",
                ),
                fix="move layers (often the loss or the embedding) to other stages",
                gain_low_ratio=ratio,
                gain_high_ratio=min(1.0, excess_ns / step_ns),
                confidence="high" if ratio > STAGE_HIGH_RATIO else "medium",
                remedies=(
                    Remedy(
                        roles=(("kernel", float(others.mean() / means[worst])),), ranks=tuple(ranks)
                    ),
                ),
            ),
        )
    )


def sample_imbalance(job: Job) -> Verdict:
    """A29: in each step another rank has the most to compute."""
    if len(job.ranks) < 3:
        return Verdict(missing="needs the traces of three ranks or more")
    if job.step_count < MIN_STEPS:
        return Verdict(missing=f"needs {MIN_STEPS} steps or more")
    compute = job.step_compute_ns
    relative = compute / np.maximum(compute.mean(axis=0), 1.0)
    all_ratio = _lost_ratio(job, compute, relative)
    # What a rank always has more or less is no matter of its samples.
    above = (relative > 1).mean(axis=1)
    always = np.minimum(above, 1 - above) <= SELDOM_RATIO
    means = relative.mean(axis=1)
    always &= means > 0
    relative[always] /= means[always, np.newaxis]
    ratio = _lost_ratio(job, compute, relative)
    by_chance = CHANCE_SPREADS * float(np.median([launch_noise(view) for view in job.ranks]))
    if ratio < max(IMBALANCE_RATIO, VARYING_SHARE * all_ratio, by_chance):
        return Verdict()
    if not _all_vary(relative):
        return Verdict()
    worst = int(np.argmax(relative.max(axis=1)))
    most = float(relative.max(axis=0).mean()) - 1
    return Verdict(
        (
            Finding(
                rule="A29",
                cause="imbalance",
                title="The ranks get unequal work",
                rank=job.ranks[worst].rank,
                place="samples of the steps",
                evidence=(
                    f"the rank with the most computes {percent(most)} longer"
                    " than the mean, another one in each step",
                    f"lost in waiting for it: {percent(ratio)} of the step",
                ),
                fix="pack or order the samples by length so that the ranks get equal work",
                gain_low_ratio=0.8 * ratio,
                gain_high_ratio=ratio,
                confidence="medium",
                remedies=(Remedy(is_shared=True, own_level=_far_from_others(job, always)),),
            ),
        )
    )


def expert_imbalance(job: Job) -> Verdict:
    """A30: the experts of one rank get more tokens than those of the others."""
    expert = [_expert_ns(view) for view in job.ranks]
    if not any(expert):
        return Verdict(missing="no kernels of experts (expert, moe, grouped gemm)")
    groups = _expert_groups(job)
    best: Finding | None = None
    for columns in groups:
        times = np.array([expert[column] for column in columns])
        if len(times) < 2 or not times.sum():
            continue
        worst = int(times.argmax())
        others = np.delete(times, worst)
        excess = float(times[worst] / times.mean() - 1)
        spread = float(np.abs(others - np.median(others)).max() / times.mean())
        view = job.ranks[columns[worst]]
        ratio = float(times[worst] - times.mean()) / view.steady_ns
        if ratio < EXPERT_RATIO or excess < 2 * spread:
            continue
        # More tokens make only the experts longer: a rank that is slow elsewhere too is slow.
        rest = np.array([_compute_ns(job.ranks[column]) for column in columns]) - times
        if rest[worst] / max(1.0, np.delete(rest, worst).mean()) - 1 > excess / 2:
            continue
        found = Finding(
            rule="A30",
            cause="moe_imbalance",
            title="The experts of one rank get more tokens than the others",
            rank=view.rank,
            place=f"experts of rank {view.rank}",
            evidence=(
                f"its expert kernels take {1 + excess:.2f} times the mean of its group",
                f"{percent(ratio)} of the step is waiting for them",
            ),
            fix="a loss that balances the router, a capacity limit, experts placed anew or doubled",
            gain_low_ratio=0.8 * ratio,
            gain_high_ratio=ratio,
            confidence="high" if excess > EXPERT_HIGH_RATIO else "medium",
            remedies=tuple(
                Remedy(
                    kernels=tuple((name, float(times.mean() / ns)) for name in _expert_names(job)),
                    ranks=(job.ranks[column].rank,),
                )
                for column, ns in zip(columns, times, strict=True)
                if ns
            ),
        )
        if best is None or found.gain_high_ratio > best.gain_high_ratio:
            best = found
    return Verdict((best,) if best else ())


def _compute_ns(view: RankView) -> int:
    return sum(row.compute_ns for row in view.steady)


def _lost_ratio(job: Job, compute: Float64, relative: Float64) -> float:
    """The part of the time by which the slowest rank of each step is above the mean."""
    lost = (relative.max(axis=0) - 1) * compute.mean(axis=0)
    return float(lost.sum()) / float(np.mean([view.steady_ns for view in job.ranks]))


def _far_from_others(job: Job, always: Bool) -> tuple[int, ...]:
    """Ranks that always compute more, or less, and by so much that no samples explain it: equal
    samples leave that as it is."""
    level = job.step_compute_ns.mean(axis=1)
    away = np.abs(level / max(float(np.median(level)), 1.0) - 1)
    far = always & (away > SPREADS * 1.4826 * float(np.median(away)) + FAR_RATIO)
    return tuple(job.ranks[column].rank for column in np.flatnonzero(far).tolist())


def _all_vary(relative: Float64) -> bool:
    """Otherwise single steps of single ranks stand out: a spike, not the samples."""
    high = relative.max(axis=0) - 1
    return bool(np.median(high) > 0.3 * high.max())


def _is_one_rank(compute: Float64, columns: list[int], excess_ns: float) -> bool:
    """One slow rank makes the mean of its stage long; the others of it are like anyone."""
    if len(columns) < 2:
        return False
    means = np.sort(compute[columns].mean(axis=1))
    return bool(means[-1] - means[0] > 0.5 * excess_ns)


def _own_kernels(job: Job, stages: list[list[int]], worst: int) -> str:
    """The longest kernel that only this stage runs."""
    elsewhere = {
        row.name
        for i, columns in enumerate(stages)
        for column in columns
        if i != worst
        for row in kernel_times(job.ranks[column].trace)
    }
    rows = kernel_times(job.ranks[stages[worst][0]].trace)
    return next((row.name[:60] for row in rows if row.name not in elsewhere), "")


def _expert_ns(view: RankView) -> int:
    """In the steady steps; communication of experts is another matter."""
    wanted = np.array(
        [
            bool(_EXPERT.search(name)) and category(name) is not Category.COMMUNICATION
            for name in view.trace.names
        ]
    )
    spans = view.device.take(wanted[view.device.name] & (view.device.kind == Kind.KERNEL))
    start_ns, end_ns = view.steady_window()
    inside = (spans.start_ns >= start_ns) & (spans.start_ns < end_ns)
    return union(spans.start_ns[inside], spans.end_ns[inside]).total_ns()


def _expert_names(job: Job) -> list[str]:
    names = {name for view in job.ranks for name in view.trace.names if _EXPERT.search(name)}
    return sorted(name for name in names if category(name) is not Category.COMMUNICATION)


def _expert_groups(job: Job) -> list[list[int]]:
    """Ranks that exchange tokens; all ranks where the trace does not say."""
    matched = job.collectives
    if matched is None:
        return [list(range(len(job.ranks)))]
    groups: dict[str, set[int]] = defaultdict(set)
    for column, collective in zip(matched.column.tolist(), matched.number.tolist(), strict=True):
        what = matched.what[collective]
        if "all_to_all" in what.operation.lower() or "alltoall" in what.operation.lower():
            groups[what.group].add(column)
    return [sorted(each) for each in groups.values()] or [list(range(len(job.ranks)))]
