"""How sure totals are of work that was seen in some windows only.

The windows that show a sort of work are a sample of the time, or of the launches where these are
known. What a total is off by follows from how much the windows differ (a ratio estimate over
clusters, with the correction for the share that was seen).
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from pilotlight.recording.columns import Array, Columns
from pilotlight.recording.gpu_windows import GpuWindows, Timed, Weights, timed_as

# Fewer windows say nothing of how much they differ.
LEAST_WINDOWS = 3
# Student's t at 97.5 %, by degrees of freedom from 2 on; from the last on the normal one.
_T = (
    *(4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160),
    *(2.145, 2.131, 2.120, 2.110, 2.101, 2.093, 2.086, 2.080, 2.074, 2.069, 2.064, 2.060),
    *(2.056, 2.052, 2.048, 2.045, 2.042),
)
_T_LARGE = 1.960


def half_widths(
    activities: Columns,
    weight: Weights,
    windows: Mapping[int, GpuWindows],
    position: Array,
    groups: int,
) -> Array:
    """Of the 95 % interval of the time of each group, by `position`; NaN: unknown; 0: all seen."""
    variance = np.zeros(groups)
    fewest = np.full(groups, np.iinfo(np.int64).max)
    sorts = timed_as(activities)
    for process in np.unique(activities["process"]).tolist():
        own = windows.get(process)
        if own is None:
            continue
        mine = activities["process"] == process
        for kind in np.unique(activities["kind"][mine]).tolist():
            for sort, is_sort in sorts.items():
                rows = np.flatnonzero(mine & is_sort & (activities["kind"] == kind))
                if rows.size:
                    _add(variance, fewest, activities, weight, own, sort, rows, position)
    estimated = variance > 0
    unknown = fewest < LEAST_WINDOWS
    half: Array = np.zeros(groups)
    half[estimated] = np.sqrt(variance[estimated]) * _quantiles(fewest[estimated] - 1)
    half[unknown] = np.nan
    return half


def _add(
    variance: Array,
    fewest: Array,
    activities: Columns,
    weight: Weights,
    windows: GpuWindows,
    sort: Timed,
    rows: Array,
    position: Array,
) -> None:
    """What these rows, which all have one weight, add to the variance of their groups."""
    factor = float(weight.values[rows[0]])
    if factor <= 1.0 + 1e-9:
        return
    shown = windows.timed(sort)
    count = int(shown.sum())
    groups = np.unique(position[rows])
    fewest[groups] = np.minimum(fewest[groups], count)
    if count < LEAST_WINDOWS:
        return
    place = windows.place(activities["start_ns"][rows])
    size = windows.start_ns.size
    if weight.is_counted[rows[0]]:
        measure = np.bincount(place, minlength=size).astype(np.float64)
    else:
        measure = np.where(shown, windows.lengths_ns, 0).astype(np.float64)
    whole = float(measure.sum())
    if whole <= 0:
        return
    # The time of each group in each window that has any of it.
    keys, inverse = np.unique(position[rows] * size + place, return_inverse=True)
    spent = np.bincount(inverse, activities["duration_ns"][rows].astype(np.float64))
    group, window = keys // size, keys % size
    total = np.bincount(group, spent, variance.size)
    rate = total / whole
    squares = np.bincount(
        group, spent**2 - 2 * rate[group] * spent * measure[window], variance.size
    )
    squares[groups] += rate[groups] ** 2 * float((measure**2).sum())
    seen_share = 1 / factor
    variance += np.maximum(squares, 0) * factor**2 * (1 - seen_share) * count / (count - 1)


def _quantiles(freedom: Array) -> Array:
    table = np.array(_T)
    inside = np.clip(freedom - 2, 0, table.size - 1)
    result: Array = np.where(freedom - 2 < table.size, table[inside], _T_LARGE)
    return result
