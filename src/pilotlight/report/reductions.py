"""Reductions of gradients, of which the adapter tells every n-th where steps are fast."""

from __future__ import annotations

import numpy as np

from pilotlight.recording.columns import Array, Columns, group
from pilotlight.recording.recording import Recording

REDUCTION = "ddp.all_reduce"


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
