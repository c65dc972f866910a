"""What the adapters of frameworks told beside phases: modules, collectives, compilations, facts."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

import numpy as np

from pilotlight.recording.columns import Array, Columns, group
from pilotlight.recording.recording import Recording
from pilotlight.recording.schema import CollectiveFlag, MarkKind, SpanKind
from pilotlight.report.reductions import each_stands_for, step_starts, times_stand_for

LISTED = 100
_MOST_APART = 64.0
_TOLD = ("recompile ", "graph break: ", "compile failed ", "out of memory ", "adapter ")


@dataclass(frozen=True)
class SpanTimes:
    """Of one process: how often and how long, all of it inside what it is part of.

    `is_estimate`: only some of its calls were told; the rest is reckoned from them.
    """

    process: int
    name: str
    count: int
    total_ns: int
    max_ns: int
    is_estimate: bool = False


@dataclass(frozen=True)
class CollectiveTimes:
    """Of one process, operation and group. `total_ns` is of those `timed` whose end is known,
    `wait_ns` of those `waits` whose wait is.

    `is_estimate`: only some of them were told; the rest is reckoned from them.
    """

    process: int
    operation: str
    group: str
    count: int
    bytes: int
    timed: int
    total_ns: int
    waits: int
    wait_ns: int
    is_estimate: bool = False


@dataclass(frozen=True)
class ToldMark:
    process: int
    text: str
    count: int


@dataclass(frozen=True)
class Frameworks:
    modules: tuple[SpanTimes, ...]
    loader_work: tuple[SpanTimes, ...]
    compilations: tuple[SpanTimes, ...]
    synchronizations: tuple[SpanTimes, ...]
    collectives: tuple[CollectiveTimes, ...]
    marks: tuple[ToldMark, ...]
    facts: dict[int, dict[str, object]]


def frameworks_of(recording: Recording) -> Frameworks:
    """Of the detail that is still there."""
    return Frameworks(
        modules=_spans(recording, SpanKind.MODULE),
        loader_work=_spans(recording, SpanKind.LOADER),
        compilations=_spans(recording, SpanKind.COMPILE),
        synchronizations=_spans(recording, SpanKind.SYNC),
        collectives=_collectives(recording),
        marks=_marks(recording),
        facts={
            process.start.process: {str(key): value for key, value in facts.items()}
            for process in recording.processes
            for facts in [process.start.identity.get("facts")]
            if isinstance(facts, dict) and facts
        },
    )


def _spans(recording: Recording, kind: SpanKind) -> tuple[SpanTimes, ...]:
    spans = recording.detail("spans")
    spans = spans.where((spans["kind"] == kind) & (spans["flags"] == 0))
    if not spans.rows:
        return ()
    numbers = recording.names.find(spans["process"], spans["name"])
    found, position = group(spans["process"], numbers)
    size = found[0].size
    stands_for = (
        _steps_each_stands_for(recording, spans, numbers)
        if kind == SpanKind.MODULE
        else np.ones(spans.rows)
    )
    told = np.bincount(position, minlength=size)
    counts = np.bincount(position, stands_for, size)
    totals = np.bincount(position, stands_for * spans["duration_ns"], size)
    longest: Array = np.zeros(size, np.int64)
    np.maximum.at(longest, position, spans["duration_ns"])
    order = np.argsort(-totals, kind="stable")[:LISTED].tolist()
    return tuple(
        SpanTimes(
            int(found[0][row]),
            recording.names.texts[int(found[1][row])],
            int(counts[row]),
            int(totals[row]),
            int(longest[row]),
            bool(counts[row] > told[row]),
        )
        for row in order
    )


def _steps_each_stands_for(recording: Recording, spans: Columns, numbers: Array) -> Array:
    """Modules of fast steps are told in one of every n; the probe says n when it changes."""
    result: Array = np.ones(spans.rows)
    counters = recording.detail("counters")
    texts = recording.names.texts
    every = [number for number, text in enumerate(texts) if text == "modules.every"]
    is_every = np.isin(recording.names.find(counters["process"], counters["name"]), every)
    # Backward by module is told in steps of its own choice.
    backward = [number for number, text in enumerate(texts) if text.endswith(" backward")]
    is_forward = ~np.isin(numbers, backward)
    for process in np.unique(counters["process"][is_every]).tolist():
        said = is_every & (counters["process"] == process)
        order = np.argsort(counters["time_ns"][said], kind="stable")
        times = counters["time_ns"][said][order]
        values = np.concatenate([[1.0], np.clip(counters["value"][said][order], 1, _MOST_APART)])
        mine = is_forward & (spans["process"] == process)
        start = spans["start_ns"][mine]
        stands_for = values[np.searchsorted(times, start, "right")]
        result[mine] = _within_the_end(stands_for, start, step_starts(recording, process))
    return result


def _within_the_end(stands_for: Array, start: Array, steps: Array) -> Array:
    """The last step that was told stands for no more than there were since the one before it."""
    if not steps.size or not start.size:
        return stands_for
    step = np.searchsorted(steps, start, "right") - 1
    last = max(int(step.max()), 0)
    before = step[step < last]
    left = steps.size - 1 - (int(before.max()) if before.size else last - 1)
    result: Array = np.where(step >= last, np.minimum(stands_for, left), stands_for)
    return result


def _collectives(recording: Recording) -> tuple[CollectiveTimes, ...]:
    rows = recording.detail("collectives")
    if not rows.rows:
        return ()
    texts = recording.names.texts
    operation = recording.names.find(rows["process"], rows["name"])
    groups = recording.names.find(rows["process"], rows["group"])
    found, position = group(rows["process"], operation, groups)
    size = found[0].size
    known = (rows["flags"] & CollectiveFlag.WAIT_KNOWN) != 0
    timed = known | ((rows["flags"] & CollectiveFlag.ASYNCHRONOUS) == 0)
    stands_for = each_stands_for(recording, rows)
    times = times_stand_for(recording, rows, stands_for)
    told = np.bincount(position, minlength=size)
    counts = np.bincount(position, stands_for, size)
    sizes = np.bincount(position, stands_for * np.maximum(rows["bytes"], 0), size)
    timed_counts = np.bincount(position[timed], stands_for[timed], size)
    totals = np.bincount(position[timed], (times * rows["duration_ns"])[timed], size)
    waits = np.bincount(position[known], stands_for[known], size)
    waited = np.bincount(position[known], (times * rows["wait_ns"])[known], size)
    order = np.argsort(-totals, kind="stable")[:LISTED].tolist()
    return tuple(
        CollectiveTimes(
            process=int(found[0][row]),
            operation=texts[int(found[1][row])],
            group=texts[int(found[2][row])],
            count=int(counts[row]),
            bytes=int(sizes[row]),
            timed=int(timed_counts[row]),
            total_ns=int(totals[row]),
            waits=int(waits[row]),
            wait_ns=int(waited[row]),
            is_estimate=bool(counts[row] > told[row]),
        )
        for row in order
    )


def _marks(recording: Recording) -> tuple[ToldMark, ...]:
    marks = recording.detail("marks")
    mine = marks.where(marks["kind"] == MarkKind.MARK)
    numbers = recording.names.find(mine["process"], mine["name"])
    texts = recording.names.texts
    told = Counter(
        (int(process), texts[int(number)])
        for process, number in zip(mine["process"], numbers, strict=True)
        if texts[int(number)].startswith(_TOLD)
    )
    return tuple(ToldMark(*key, count) for key, count in told.most_common(LISTED))
