"""How long the steps took, and which did not take what a step takes."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from pilotlight.recording.columns import Array, Columns, group
from pilotlight.recording.recording import Recording
from pilotlight.recording.schema import SpanKind
from pilotlight.report.coverage import Coverage
from pilotlight.report.intervals import merge, overlap
from pilotlight.report.quantiles import quantile

OUTLIERS_LISTED = 20
OUTLIER_DEVIATIONS = 6
OUTLIER_LEAST_RATIO = 1.25
OUTLIER_APART_RATIO = 2
_MAD_TO_SIGMA = 1.4826
# Of a normal distribution 5 % lie above 1.645 standard deviations.
_TAIL_QUANTILE = 0.95
_TAIL_SIGMAS = 1.645
_STEPS_FOR_OUTLIERS = 8
_FRAMES_SHOWN = 2


@dataclass(frozen=True)
class Outlier:
    """`since_start_ns` counts from the start of the recording; `doing` is where its thread was."""

    step: int
    is_first: bool
    since_start_ns: int
    duration_ns: int
    ratio: float
    gc_ns: int
    doing: str
    doing_ratio: float


@dataclass(frozen=True)
class ProcessSteps:
    process: int
    count: int
    total_ns: int
    median_ns: int
    p95_ns: int
    min_ns: int
    max_ns: int
    outlier_count: int
    outlier_excess_ns: int
    outliers: tuple[Outlier, ...]


@dataclass(frozen=True)
class StepRows:
    """All steps of one process in the order of time."""

    process: int
    thread: Array
    step: Array
    start_ns: Array
    duration_ns: Array
    is_outlier: Array


def step_rows(recording: Recording) -> list[StepRows]:
    """Steps are in the windows for good and in the detail until those are written: each once."""
    kept, newest = recording.windows("steps"), recording.detail("steps")
    columns = {name: np.concatenate([kept[name], newest[name]]) for name in kept.arrays}
    # A later row of the same step is written over the earlier: they are the same.
    _, position = group(columns["process"], columns["start_ns"], columns["step"])
    chosen = np.zeros(position.max(initial=-1) + 1, np.int64)
    chosen[position] = np.arange(position.size)
    rows = {name: column[chosen] for name, column in columns.items()}
    whole = ~_runs_over_lost_ones(rows, recording.gaps)
    rows = {name: column[whole] for name, column in rows.items()}
    result = []
    for process in np.unique(rows["process"]).tolist():
        mine = rows["process"] == process
        duration_ns = rows["duration_ns"][mine]
        result.append(
            StepRows(
                process,
                rows["thread"][mine],
                rows["step"][mine],
                rows["start_ns"][mine],
                duration_ns,
                outliers_in(duration_ns),
            )
        )
    return result


def _runs_over_lost_ones(rows: dict[str, Array], gaps: Columns) -> Array:
    """Rows that last until a step with a later number than the next: where records were lost, the
    beginnings of steps were among them, and what looks like one long step were many."""
    result: Array = np.zeros(rows["step"].size, bool)
    end_ns = rows["start_ns"] + rows["duration_ns"]
    for process in np.unique(gaps["process"]).tolist():
        lost = gaps.where(gaps["process"] == process)
        for thread in np.unique(rows["thread"][rows["process"] == process]).tolist():
            mine = np.flatnonzero((rows["process"] == process) & (rows["thread"] == thread))
            mine = mine[np.argsort(rows["start_ns"][mine], kind="stable")]
            jumps = np.flatnonzero(np.diff(rows["step"][mine]) > 1)
            for place in mine[jumps].tolist():
                result[place] = bool(
                    np.any(
                        (lost["first_ns"] <= end_ns[place])
                        & (lost["last_ns"] >= rows["start_ns"][place])
                    )
                )
    return result


def outliers_in(duration_ns: Array) -> Array:
    """Steps far above the median: by 6 robust standard deviations of the logarithm and by a quarter
    at least. Where that is more than a few steps and nothing separates them from the others, they
    are the tail of a job whose steps vary, and the tail itself is the measure: outliers are those
    far beyond it, and the last few percent where no step is within a factor of two below them."""
    if duration_ns.size < _STEPS_FOR_OUTLIERS:
        return np.zeros(duration_ns.size, bool)
    logs = np.log(np.maximum(duration_ns, 1))
    median, high = np.quantile(logs, (0.5, _TAIL_QUANTILE))
    sigma = _MAD_TO_SIGMA * float(np.median(np.abs(logs - median)))
    least = np.log(OUTLIER_LEAST_RATIO)
    mask: Array = logs > median + max(OUTLIER_DEVIATIONS * sigma, least)
    if mask.mean() > 1 - _TAIL_QUANTILE and logs[mask].min() - logs[~mask].max() < least:
        tail = np.sort(logs[logs >= high])
        apart = tail[1:][np.diff(tail) >= np.log(OUTLIER_APART_RATIO)]
        far = median + OUTLIER_DEVIATIONS * (high - median) / _TAIL_SIGMAS
        mask = logs >= min(apart.min(initial=np.inf), far)
    return mask


def summarize_steps(rows: StepRows, recording: Recording, coverage: Coverage) -> ProcessSteps:
    ordered = np.sort(rows.duration_ns)
    median_ns = quantile(ordered, 0.5)
    places = np.flatnonzero(rows.is_outlier)
    worst = places[np.argsort(rows.duration_ns[places], kind="stable")[::-1]][:OUTLIERS_LISTED]
    excess = rows.duration_ns[places] - median_ns
    return ProcessSteps(
        process=rows.process,
        count=int(ordered.size),
        total_ns=int(ordered.sum()),
        median_ns=median_ns,
        p95_ns=quantile(ordered, 0.95),
        min_ns=int(ordered[0]),
        max_ns=int(ordered[-1]),
        outlier_count=int(places.size),
        outlier_excess_ns=int(excess.sum()),
        outliers=tuple(_outliers(rows, worst, median_ns, recording, coverage.start_ns)),
    )


def _outliers(
    rows: StepRows, places: Array, median_ns: int, recording: Recording, origin_ns: int
) -> list[Outlier]:
    spans = recording.detail("spans")
    gc = (spans["process"] == rows.process) & (spans["kind"] == SpanKind.GC)
    gc_start = spans["start_ns"][gc]
    merged = merge(gc_start, gc_start + spans["duration_ns"][gc])
    starts, durations = rows.start_ns[places], rows.duration_ns[places]
    gc_ns = overlap(merged, starts, starts + durations)

    samples = recording.detail("samples")
    samples = samples.where(samples["process"] == rows.process)
    result = []
    for index, place in enumerate(places.tolist()):
        start, duration = int(starts[index]), int(durations[index])
        doing, doing_ns = _most_of(recording, samples, int(rows.thread[place]), start, duration)
        result.append(
            Outlier(
                step=int(rows.step[place]),
                is_first=place == 0,
                since_start_ns=start - origin_ns,
                duration_ns=duration,
                ratio=duration / median_ns if median_ns else 0.0,
                gc_ns=int(gc_ns[index]),
                doing=doing,
                doing_ratio=min(1.0, doing_ns / duration) if duration else 0.0,
            )
        )
    return result


def _most_of(
    recording: Recording, samples: Columns, thread: int, start_ns: int, duration_ns: int
) -> tuple[str, int]:
    """The function in which a thread spent most of a step, after its caller, and how long."""
    time_ns = samples["time_ns"]
    inside = (time_ns >= start_ns) & (time_ns < start_ns + duration_ns)
    inside &= samples["thread"] == thread
    if not inside.any():
        return "", 0
    nodes = recording.calls.find(samples["process"][inside], samples["stack"][inside])
    found, positions = np.unique(nodes, return_inverse=True)
    sums = np.bincount(positions, samples["weight_ns"][inside])
    most = int(np.argmax(sums))
    innermost = recording.calls.path(int(found[most]))[-_FRAMES_SHOWN:]
    return " › ".join(frame.function for frame in innermost), int(sums[most])
