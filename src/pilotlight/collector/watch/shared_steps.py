"""The steps that all ranks of a job have told, and which of them to look at."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from pilotlight.recording.columns import Array

A_WHILE_NS = 10_000_000_000


def shared(tables: Mapping[int, Array]) -> Array:
    """The steps that all have which have any, in order."""
    steps = [rows[:, 0] for rows in tables.values() if len(rows)]
    found: Array = np.unique(steps[0]) if steps else np.empty(0, np.int64)
    for more in steps[1:]:
        if not np.array_equal(found, more):
            found = np.intersect1d(found, more)
    return found


def lasts_ns(tables: Mapping[int, Array], steps: Array) -> int:
    """From the first to the last of them."""
    return int(np.ptp(_times_ns(tables, steps)))


def spread(tables: Mapping[int, Array], common: Array, most: int) -> Array:
    """The last steps that all have. Of fast ones some of the last seconds: what slows down a rank
    for a moment is over before anybody hears of it."""
    if len(common) <= most:
        return common
    times_ns = _times_ns(tables, common)
    since_ns = min(times_ns[-1] - A_WHILE_NS, times_ns[-most])
    wanted_ns = np.linspace(max(since_ns, times_ns[0]), times_ns[-1], most)
    places = np.searchsorted(times_ns, wanted_ns, "right") - 1
    # Where two fall on one step, the earlier takes the one before.
    for index in range(most - 2, -1, -1):
        places[index] = min(places[index], places[index + 1] - 1)
    return common[np.maximum(places, np.arange(most))]


def _times_ns(tables: Mapping[int, Array], steps: Array) -> Array:
    """When they began on the first rank."""
    rows = next(rows for rows in tables.values() if len(rows))
    times_ns: Array = np.sort(rows[np.isin(rows[:, 0], steps), 1])
    return times_ns
