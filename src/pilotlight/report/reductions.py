"""Reductions of gradients, of which the adapter tells every n-th where steps are fast."""

from __future__ import annotations

import math

import numpy as np

from pilotlight.recording.columns import Array, Columns, group
from pilotlight.recording.recording import Recording
from pilotlight.recording.schema import SpanKind

REDUCTION = "ddp.all_reduce"
COUNTER = "ddp.reductions"
_MOMENT_NS = 200_000


def is_reduction(recording: Recording, rows: Columns) -> Array:
    names = recording.names.find(rows["process"], rows["name"])
    texts = recording.names.texts
    mask: Array = np.isin(names, [number for number, text in enumerate(texts) if text == REDUCTION])
    return mask


def each_stands_for(recording: Recording, rows: Columns) -> Array:
    """How many collectives a row stands for: itself, and those since the one before it that were
    not told. Their sequence counts all. The last also for those after it, as far as it is known how
    many there were."""
    result: Array = np.ones(rows.rows)
    places = np.flatnonzero(is_reduction(recording, rows))
    if not places.size:
        return result
    groups = recording.names.find(rows["process"], rows["group"])[places]
    found, position = group(rows["process"][places], groups)
    order = np.lexsort((rows["sequence"][places], position))
    sequence = rows["sequence"][places][order]
    apart = np.diff(sequence)
    follows = np.diff(position[order]) == 0
    result[places[order[1:]]] = np.where(follows, np.maximum(apart, 1), 1)
    last = np.flatnonzero(np.append(~follows, True))
    result[places[order[last]]] += np.maximum(_counted(recording, *found) - sequence[last], 0)
    return result


def _counted(recording: Recording, processes: Array, groups: Array) -> Array:
    """How many reductions each of these groups of a process had, as far as the adapter said."""
    counters = recording.detail("counters")
    texts = recording.names.texts
    names = recording.names.find(counters["process"], counters["name"])
    said: dict[tuple[int, str], float] = {}
    told = [number for number, text in enumerate(texts) if text.startswith(f"{COUNTER} ")]
    for row in np.flatnonzero(np.isin(names, told)).tolist():
        key = int(counters["process"][row]), texts[int(names[row])].removeprefix(f"{COUNTER} ")
        value = float(counters["value"][row])
        said[key] = max(said.get(key, 0.0), value if math.isfinite(value) else 0.0)
    pairs = zip(processes.tolist(), groups.tolist(), strict=True)
    counted: Array = np.array(
        [said.get((process, texts[number]), 0.0) for process, number in pairs]
    )
    return counted


def times_stand_for(recording: Recording, rows: Columns, stands_for: Array) -> Array:
    """As `stands_for`, for times: so that what was not told fits into the backwards it hides in."""
    result: Array = np.ones(rows.rows)
    untold = stands_for - 1
    backwards = phase_spans(recording, "backward")
    for process in np.unique(rows["process"][untold > 0]).tolist():
        mine = is_reduction(recording, rows) & (rows["process"] == process)
        own = backwards.where(backwards["process"] == process)
        ratio = hidden_ratio(rows.where(mine), untold[mine], own, step_starts(recording, process))
        hidden_ns = ratio * own["duration_ns"].sum()
        reckoned_ns = float((untold[mine] * rows["wait_ns"][mine]).sum())
        if reckoned_ns:
            result[mine] += untold[mine] * hidden_ns / reckoned_ns
    return result


def phase_spans(recording: Recording, phase: str) -> Columns:
    spans = recording.detail("spans")
    spans = spans.where((spans["kind"] == SpanKind.PHASE) & (spans["flags"] == 0))
    names = recording.names.find(spans["process"], spans["name"])
    texts = recording.names.texts
    return spans.where(np.isin(names, [n for n, text in enumerate(texts) if text == phase]))


def step_starts(recording: Recording, process: int) -> Array:
    steps = recording.detail("steps")
    starts: Array = np.sort(steps["start_ns"][steps["process"] == process])
    return starts


def hidden_ratio(told: Columns, untold: Array, backwards: Columns, steps: Array) -> float:
    """How much of the time in these backwards is waiting for reductions that were not told.

    A told one says which share of its backward it took. Those it stands for took as much of theirs;
    backwards that reduce nothing (no_sync) took none.
    """
    order = np.argsort(backwards["start_ns"], kind="stable")
    start, length = backwards["start_ns"][order], backwards["duration_ns"][order]
    before = np.searchsorted(start, told["start_ns"], "right") - 1
    known = before >= 0
    if not known.any():
        return 0.0
    told_ns = np.where(known, length[np.maximum(before, 0)], 0)
    whole_ns = float((untold * (told["wait_ns"] + told_ns)).sum())
    share = float((untold * told["wait_ns"]).sum()) / whole_ns if whole_ns else 0.0
    # A reduction interrupts its backward, which goes on for a moment after it.
    end = told["start_ns"] + told["duration_ns"]
    after = np.minimum(np.searchsorted(start, told["start_ns"], "right"), start.size - 1)
    is_rest = (start[after] >= told["start_ns"]) & (start[after] <= end + _MOMENT_NS)
    whole = np.ones(start.size, bool)
    whole[after[is_rest]] = False
    others = _that_reduce(start, whole, steps, told.rows + float(untold.sum()))
    others[before[known]] = False
    count, all_ns = int(np.count_nonzero(others)), float(length.sum())
    if not count or not all_ns:
        return 0.0
    others_ns = float(length[others].sum())
    return share * min(1.0, float(untold.sum()) / count) * others_ns / all_ns


def _that_reduce(start: Array, whole: Array, steps: Array, reductions: float) -> Array:
    """Which backwards may have reduced: the last of each step, as many as a step has reductions.

    Where gradients are accumulated the first of a step do not (no_sync), and they are the short
    ones: they wait for nobody.
    """
    result: Array = whole.copy()
    if not steps.size:
        return result
    each = max(1, round(reductions / steps.size))
    step = np.searchsorted(steps, start[whole], "right")
    from_end = np.searchsorted(step, step, "right") - np.arange(step.size)
    result[whole] = from_end <= each
    return result
