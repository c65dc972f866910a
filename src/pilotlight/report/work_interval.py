"""How sure totals are of work that was seen in some windows only.

The windows that show a sort of work are a sample of the time, or of the launches where these are
known. What a total is off by follows from how much each window differs from the next one (a ratio
estimate over a systematic sample): what changes slowly is seen in every window alike.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from pilotlight.recording.columns import Array, Columns
from pilotlight.recording.gpu_cells import Cells
from pilotlight.recording.gpu_weights import Weights, timed_as
from pilotlight.recording.gpu_windows import GpuWindows, Timed

# Fewer windows say nothing of how much they differ.
LEAST_WINDOWS = 3
# Student's t at 97.5 %, by degrees of freedom from 1 on, and that of the normal distribution.
_T = (
    *(12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160),
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
    half[estimated] = np.sqrt(variance[estimated]) * _quantiles(fewest[estimated])
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
    """What these rows, all weighted in one way, add to the variance of their groups."""
    shown, cells = windows.timed(sort), Cells.of(windows, sort)
    if cells.from_start:  # that window stands for itself, and says nothing of the others
        shown &= windows.start_ns >= cells.ends_ns[0]
        groups = np.unique(position[rows])
        fewest[groups] = np.minimum(fewest[groups], int(shown.sum()))
        rows = rows[cells.place(activities["start_ns"][rows]) > 0]
    values = weight.values[rows]
    factor = float(values.mean()) if rows.size else 1.0
    if factor <= 1.0 + 1e-9:
        return
    count = int(shown.sum())
    groups = np.unique(position[rows])
    fewest[groups] = np.minimum(fewest[groups], count)
    if count < LEAST_WINDOWS:
        return
    # What began after the end of its window still belongs to it.
    window = np.maximum(np.cumsum(shown) - 1, 0)[windows.place(activities["start_ns"][rows])]
    if weight.is_counted[rows[0]]:
        measure: Array = np.bincount(window, values, count)
    else:
        # The time that each window stands for; as usual, where it shows nothing of the kind.
        rows_in = np.bincount(window, minlength=count)
        sums = np.bincount(window, values, count)
        each = np.where(rows_in > 0, sums / np.maximum(rows_in, 1), factor)
        measure = windows.lengths_ns[shown] * each
    whole = float(measure.sum())
    if whole <= 0:
        return
    # The time that each window stands for, of each group that it has any of.
    keys, inverse = np.unique(position[rows] * count + window, return_inverse=True)
    spent = np.bincount(inverse, activities["duration_ns"][rows] * values)
    rate = np.bincount(keys // count, spent, variance.size) / whole
    squares = _squares_of_steps(keys, spent, measure, rate, groups)
    # The edges of windows cut the work wherever they fall: if they alone make windows differ, it is
    # no help that most of the time was seen, as long as there are as many edges.
    unseen = max(1 - 1 / factor, min(1.0, _gaps(shown) / count))
    variance += squares / 2 * count / (count - 1) * unseen


def _squares_of_steps(
    keys: Array, spent: Array, measure: Array, rate: Array, groups: Array
) -> Array:
    """Of each group, the sum of the squares of what its rest grows by from window to window.

    The rest is the time that it `spent` there, less its usual `rate`. `keys`: group and window.
    """
    count, size = measure.size, rate.size
    group, window = keys // count, keys % count
    before, after = np.append(0.0, measure[:-1]), np.append(measure[1:], 0.0)
    inner = 2.0 - (window == 0) - (window == count - 1)
    ones = spent**2 * inner
    mixed = spent * (measure[window] * inner - before[window] - after[window])
    beside = np.flatnonzero((np.diff(keys) == 1) & (window[:-1] < count - 1))
    products = np.bincount(group[beside], spent[beside] * spent[beside + 1], size)
    result: Array = np.bincount(group, ones - 2 * rate[group] * mixed, size) - 2 * products
    result[groups] += rate[groups] ** 2 * float((np.diff(measure) ** 2).sum())
    return np.maximum(result, 0)


def _gaps(shown: Array) -> int:
    """How many stretches between what is shown, and after it, are not."""
    return int((shown[:-1] & ~shown[1:]).sum())


def _quantiles(count: Array) -> Array:
    """Of that many windows, whose differences from the next one tell about two thirds as much as as
    many that were free (von Neumann)."""
    inverse = (3.0 * count - 4) / (2.0 * (count - 1.0) ** 2)
    known = np.append(0.0, 1 / np.arange(len(_T), 0, -1))
    result: Array = np.interp(inverse, known, np.append(_T_LARGE, _T[::-1]))
    return result
