"""What changed between two jobs, by how much, and whether that is more than noise."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations

import numpy as np

from pilotlight.errors import UsageError
from pilotlight.insights.breakdown import kernel_times
from pilotlight.insights.host_steps import host_samples, host_steps, operator_steps
from pilotlight.insights.idle_time import Idle
from pilotlight.insights.job import Job
from pilotlight.trace.trace import NONE, Float64, Trace

METRICS = ("step_time", "compute", "exposed_communication", "exposed_copies", "idle")
NOISE_PROBABILITY = 0.05
EXACT_PERMUTATIONS = 20_000
RANDOM_PERMUTATIONS = 10_000
SHOWN_KERNELS = 12


@dataclass(frozen=True)
class Change:
    """Nanoseconds a step, before and after. `noise_probability` is how often a difference this
    great comes about if nothing changed; None with fewer than three independent steps on a side.
    """

    what: str
    before_ns: float
    after_ns: float
    noise_probability: float | None

    @property
    def ratio(self) -> float:
        """Relative change; infinite for what is new."""
        if self.before_ns:
            return self.after_ns / self.before_ns - 1
        return math.inf if self.after_ns else 0.0

    @property
    def is_noise(self) -> bool | None:
        if self.noise_probability is None:
            return None
        return self.noise_probability > NOISE_PROBABILITY


@dataclass(frozen=True)
class Difference:
    """`items` are kernels or, of hosts alone, operators: `item` says which. Without steps on both
    sides all of a trace is one."""

    parts: tuple[Change, ...]
    items: tuple[Change, ...]
    item: str
    steps_before: int
    steps_after: int
    detectable_ratio: float | None
    has_steps: bool


@dataclass(frozen=True)
class Limit:
    """A metric and the relative change that it must not exceed."""

    metric: str
    ratio: float

    def is_exceeded(self, change: Change) -> bool:
        return change.ratio > self.ratio and change.is_noise is not True


def parse_limit(text: str) -> Limit:
    match = re.fullmatch(r"\s*(\w+)\s*>\s*(\d+(?:\.\d+)?)\s*%\s*", text)
    if match is None or match.group(1) not in METRICS:
        raise UsageError(f"--fail-if {text!r}: write METRIC>N%, METRIC one of {', '.join(METRICS)}")
    return Limit(match.group(1), float(match.group(2)) / 100)


def difference(before: Job, after: Job) -> Difference:
    """Both jobs by step, without device activity the hosts' steps; raises UsageError for sides that
    cannot be compared."""
    if bool(before.ranks) != bool(after.ranks):
        raise UsageError("nothing to compare: one side has device activity and the other has none")
    if before.ranks:
        kernels = _kernels(before, after)
        samples = _samples(before), _samples(after)
        return _difference(*samples, "kernel", kernels, _have_steps(before, after))
    old, new = before.traces, after.traces
    if not host_steps(old) or not host_steps(new):
        raise UsageError("nothing to compare: a side has neither device activity nor host spans")
    samples = host_samples(old), host_samples(new)
    return _difference(*samples, "operator", _operators(old, new), _have_steps(before, after))


def _have_steps(*jobs: Job) -> bool:
    return all(any(len(trace.steps) for trace in job.traces) for job in jobs)


def _difference(
    old: Mapping[str, Float64],
    new: Mapping[str, Float64],
    item: str,
    items: Sequence[Change],
    has_steps: bool,
) -> Difference:
    parts = family(tuple(_change(name, old[name], new[name]) for name in old))
    steps = old["step_time"]
    detectable = None
    fewest = min(len(steps), len(new["step_time"]))
    if fewest >= 3:
        variation = float(steps.std(ddof=1) / steps.mean())
        detectable = 4.57 * variation * math.sqrt(2 / fewest)
    counts = len(steps), len(new["step_time"])
    _, *items = family((parts[0], *items))
    return Difference(parts, tuple(items), item, *counts, detectable, has_steps)


def family(changes: tuple[Change, ...]) -> tuple[Change, ...]:
    """The first is the whole. If it did not change, its parts must be the more certain, for of many
    one always looks changed: Holm's correction."""
    whole, *parts = changes
    if whole.is_noise is False:
        return changes
    known = [part for part in parts if part.noise_probability is not None]
    known.sort(key=lambda part: part.noise_probability or 0.0)
    adjusted: dict[str, float] = {}
    least = 0.0
    for place, part in enumerate(known):
        least = max(least, min(1.0, (len(known) - place) * (part.noise_probability or 0.0)))
        adjusted[part.what] = least
    return whole, *(
        replace(part, noise_probability=adjusted.get(part.what, part.noise_probability))
        for part in parts
    )


def noise_probability(before: Float64, after: Float64) -> float | None:
    """Permutation test of the difference of means, two-sided. Steps that resemble their neighbours
    count less: means of as many as make them independent are compared."""
    length = _dependent_steps(before, after)
    before, after = _block_means(before, length), _block_means(after, length)
    if len(before) < 3 or len(after) < 3:
        return None
    together = np.concatenate((before, after))
    count, size = len(together), len(after)
    seen = abs(after.mean() - before.mean())
    total = together.sum()
    if math.comb(count, size) <= EXACT_PERMUTATIONS:
        chosen = np.array(list(combinations(range(count), size)))
    else:
        random = np.random.default_rng(0)
        chosen = np.argsort(random.random((RANDOM_PERMUTATIONS, count)), axis=1)[:, :size]
    sums = together[chosen].sum(axis=1)
    differences = np.abs(sums / size - (total - sums) / (count - size))
    return float((differences >= seen * (1 - 1e-12)).mean())


def _dependent_steps(before: Float64, after: Float64) -> int:
    """How many steps say as much as one: (1 + r) / (1 - r) with r the correlation of neighbours,
    where it is more than chance."""
    rest = [side - side.mean() for side in (before, after) if len(side) >= 3]
    square = sum(float((side**2).sum()) for side in rest)
    if len(rest) < 2 or not square:
        return 1
    pairs = sum(len(side) - 1 for side in rest)
    r = sum(float((side[1:] * side[:-1]).sum()) for side in rest) / square
    # Means taken off lower it by about this much.
    r = min(0.95, r + 1 / min(map(len, rest)))
    return math.ceil((1 + r) / (1 - r)) if r > 2 / math.sqrt(pairs) else 1


def _block_means(values: Float64, length: int) -> Float64:
    count = len(values) // length
    means: Float64 = values[: count * length].reshape(count, length).mean(axis=1)
    return means


def _samples(job: Job) -> dict[str, Float64]:
    """A value a step, the mean over the ranks."""
    length = min(len(view.steady) for view in job.ranks)
    rows = [view.steady[:length] for view in job.ranks]

    def mean(values: list[list[int]]) -> Float64:
        means: Float64 = np.array(values, np.float64).mean(axis=0)
        return means

    samples = {
        "step_time": mean([[row.window_ns for row in rank] for rank in rows]),
        "compute": mean([[row.compute_ns for row in rank] for rank in rows]),
        "exposed_communication": mean([[r.exposed_communication_ns for r in k] for k in rows]),
        "exposed_copies": mean([[row.exposed_copy_ns for row in rank] for rank in rows]),
        "idle": mean([[row.idle_ns for row in rank] for rank in rows]),
    }
    for cause in Idle:
        idle = [[row.idle_by_cause_ns[cause.value] for row in rank] for rank in rows]
        samples[f"idle: {cause.value}"] = mean(idle)
    return samples


def _change(what: str, before: Float64, after: Float64) -> Change:
    probability = noise_probability(before, after)
    return Change(what, float(before.mean()), float(after.mean()), probability)


def _kernels(before: Job, after: Job) -> tuple[Change, ...]:
    """The kernels whose time a step changed most."""
    old, new = _kernel_totals(before), _kernel_totals(after)
    names = sorted({**old, **new}, key=lambda name: -abs(new.get(name, 0.0) - old.get(name, 0.0)))
    found = []
    for name in names[:SHOWN_KERNELS]:
        probability = noise_probability(_kernel_steps(before, name), _kernel_steps(after, name))
        found.append(Change(name, old.get(name, 0.0), new.get(name, 0.0), probability))
    return tuple(found)


def _operators(before: Sequence[Trace], after: Sequence[Trace]) -> tuple[Change, ...]:
    """The operators whose own time a step changed most."""
    old, new = operator_steps(before), operator_steps(after)
    none = [np.zeros_like(next(iter(side.values()), np.zeros(1))) for side in (old, new)]
    changes = [
        (name, old.get(name, none[0]), new.get(name, none[1])) for name in sorted({**old, **new})
    ]
    changes.sort(key=lambda change: -abs(change[2].mean() - change[1].mean()))
    return tuple(_change(*change) for change in changes[:SHOWN_KERNELS])


def _kernel_steps(job: Job, name: str) -> Float64:
    """What the kernel took in each steady step, the mean over the ranks."""
    length = min(len(view.steady) for view in job.ranks)
    rows = []
    for view in job.ranks:
        start_ns, _ = view.steady_bounds()
        number = view.trace.names.index(name) if name in view.trace.names else NONE
        spans = view.device.take(view.device.name.astype(np.int64) == number)
        step = np.searchsorted(start_ns, spans.start_ns, side="right") - 1
        inside = (step >= 0) & (step < length)
        rows.append(np.bincount(step[inside], spans.duration_ns[inside], length))
    means: Float64 = np.mean(rows, axis=0)
    return means


def _kernel_totals(job: Job) -> dict[str, float]:
    totals: dict[str, float] = {}
    for view in job.ranks:
        steps = max(1, len(view.steps))
        for row in kernel_times(view.trace):
            part = row.total_ns / steps / len(job.ranks)
            totals[row.name] = totals.get(row.name, 0.0) + part
    return totals
