"""Reductions of gradients, of which the adapter tells every n-th where steps are fast."""

from __future__ import annotations

import numpy as np

from pilotlight.recording.columns import Array, Columns, group
from pilotlight.recording.recording import Recording
from pilotlight.recording.schema import SpanKind

REDUCTION = "ddp.all_reduce"
_MOMENT_NS = 200_000


def is_reduction(recording: Recording, rows: Columns) -> Array:
    names = recording.names.find(rows["process"], rows["name"])
    texts = recording.names.texts
    mask: Array = np.isin(names, [number for number, text in enumerate(texts) if text == REDUCTION])
    return mask


def each_stands_for(recording: Recording, rows: Columns) -> Array:
    """How many collectives a row stands for: itself, and those since the one before it that were
    not told. Their sequence counts all."""
    result: Array = np.ones(rows.rows)
    places = np.flatnonzero(is_reduction(recording, rows))
    if not places.size:
        return result
    groups = recording.names.find(rows["process"], rows["group"])[places]
    _, position = group(rows["process"][places], groups)
    order = np.lexsort((rows["sequence"][places], position))
    sequence = rows["sequence"][places][order]
    apart = np.diff(sequence)
    follows = np.diff(position[order]) == 0
    result[places[order[1:]]] = np.where(follows, np.maximum(apart, 1), 1)
    return result


def times_stand_for(recording: Recording, rows: Columns, stands_for: Array) -> Array:
    """As `stands_for`, for times: so that what was not told fits into the backwards it hides in."""
    result: Array = np.ones(rows.rows)
    untold = stands_for - 1
    backwards = phase_spans(recording, "backward")
    for process in np.unique(rows["process"][untold > 0]).tolist():
        mine = is_reduction(recording, rows) & (rows["process"] == process)
        own = backwards.where(backwards["process"] == process)
        hidden_ns = hidden_ratio(rows.where(mine), untold[mine], own) * own["duration_ns"].sum()
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


def hidden_ratio(told: Columns, untold: Array, backwards: Columns) -> float:
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
    parts = np.unique(np.concatenate([before[known], after[is_rest]]))
    others = start.size - parts.size
    all_ns = float(length.sum())
    if not others or not all_ns:
        return 0.0
    others_ns = all_ns - float(length[parts].sum())
    return share * min(1.0, float(untold.sum()) / others) * others_ns / all_ns
