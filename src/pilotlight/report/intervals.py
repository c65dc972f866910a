"""Arithmetic of time intervals [start, end) as pairs of arrays."""

from __future__ import annotations

import numpy as np

from pilotlight.recording.columns import Array

NESTING_LIMIT = 64


def merge(starts: Array, ends: Array) -> tuple[Array, Array]:
    """The same time as disjoint intervals in order; empty intervals vanish."""
    some = ends > starts
    order = np.argsort(starts[some], kind="stable")
    starts, ends = starts[some][order], ends[some][order]
    if not starts.size:
        return starts, ends
    reach = np.maximum.accumulate(ends)
    first = np.append(True, starts[1:] > reach[:-1])
    last = np.append(first[1:], True)
    return starts[first], reach[last]


def covered_before(merged: tuple[Array, Array], times: Array) -> Array:
    """How much of merged intervals lies before each time."""
    starts, ends = merged
    if not starts.size:
        return np.zeros(times.shape, np.int64)
    sums = np.append(0, np.cumsum(ends - starts))
    place = np.searchsorted(starts, times, side="right")
    last_end = ends[np.maximum(place - 1, 0)]
    beyond = np.where(place > 0, np.maximum(last_end - times, 0), 0)
    covered: Array = sums[place] - beyond
    return covered


def overlap(merged: tuple[Array, Array], starts: Array, ends: Array) -> Array:
    """How much of each interval is covered by merged intervals."""
    covered: Array = covered_before(merged, ends) - covered_before(merged, starts)
    return covered


def nested_in(lanes: Array, starts: Array, ends: Array) -> Array:
    """For each interval the smallest one of the same lane that holds it, or -1.

    Of equal intervals the later row is inside the earlier. Nesting beyond NESTING_LIMIT counts as
    nesting in the last level.
    """
    order = np.lexsort((-ends, starts, lanes))
    # Of equal ends the earlier in order ranks higher, so that it holds the later.
    backwards = order[::-1]
    ranks = np.empty(ends.size, np.int64)
    ranks[backwards[np.argsort(ends[backwards], kind="stable")]] = np.arange(ends.size)

    parent = np.full(starts.size, -1, np.int64)
    _, group = np.unique(lanes, return_inverse=True)
    rows = order
    for _ in range(NESTING_LIMIT):
        if not rows.size:
            break
        # Rows of one group are neighbours, and a later group has the greater key throughout.
        key = group[rows].astype(np.int64) * (starts.size + 1) + ranks[rows] + 1
        before = np.append(0, np.maximum.accumulate(key)[:-1])
        outer = key > before
        holder = rows[np.maximum.accumulate(np.where(outer, np.arange(rows.size), 0))]
        rows, holder = rows[~outer], holder[~outer]
        parent[rows] = holder
        group = _regroup(group, rows, holder)
    return parent


def _regroup(group: Array, rows: Array, holder: Array) -> Array:
    """Numbers the rows by their holder, in the order in which they stand."""
    changes = np.append(False, holder[1:] != holder[:-1]) if rows.size else np.empty(0, bool)
    renewed: Array = group.copy()
    renewed[rows] = np.cumsum(changes)
    return renewed
