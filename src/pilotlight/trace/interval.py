"""Sets of time: sorted, disjoint, half-open intervals as two columns."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pilotlight.trace.trace import Int64

Rule = Callable[[NDArray[np.int8], NDArray[np.int8]], NDArray[np.bool_]]


@dataclass(frozen=True)
class Intervals:
    """Sorted and disjoint; adjacent intervals are joined."""

    start_ns: Int64
    end_ns: Int64

    def __len__(self) -> int:
        return len(self.start_ns)

    def total_ns(self) -> int:
        return int((self.end_ns - self.start_ns).sum())

    def lengths_ns(self) -> Int64:
        return self.end_ns - self.start_ns

    def covered_before(self, time_ns: Int64) -> Int64:
        """How much of the set lies before each of these times."""
        if not len(self):
            return np.zeros(len(time_ns), np.int64)
        summed = np.concatenate(([0], np.cumsum(self.end_ns - self.start_ns)))
        after = np.searchsorted(self.start_ns, time_ns, side="right")
        last = np.maximum(after - 1, 0)
        inside = np.clip(time_ns - self.start_ns[last], 0, self.end_ns[last] - self.start_ns[last])
        return np.where(after == 0, 0, summed[last] + inside)

    def within_ns(self, start_ns: Int64, end_ns: Int64) -> Int64:
        """How much of the set lies within each window."""
        before = self.covered_before(np.concatenate((start_ns, end_ns)))
        return before[len(start_ns) :] - before[: len(start_ns)]

    # Most sets of a trace are empty, and most traces small: what is known is not computed.

    def __and__(self, other: Intervals) -> Intervals:
        if not len(self) or not len(other):
            return EMPTY
        return _where(self, other, lambda a, b: (a > 0) & (b > 0))

    def __or__(self, other: Intervals) -> Intervals:
        if not len(self) or not len(other):
            return self if len(self) else other
        return _where(self, other, lambda a, b: (a > 0) | (b > 0))

    def __sub__(self, other: Intervals) -> Intervals:
        if not len(self) or not len(other):
            return self
        return _where(self, other, lambda a, b: (a > 0) & (b == 0))


EMPTY = Intervals(np.empty(0, np.int64), np.empty(0, np.int64))


def union(start_ns: Int64, end_ns: Int64) -> Intervals:
    """The set that these intervals cover, in any order and however they overlap."""
    real = end_ns > start_ns
    start_ns, end_ns = start_ns[real], end_ns[real]
    if not len(start_ns):
        return EMPTY
    order = np.argsort(start_ns, kind="stable")
    start_ns, end_ns = start_ns[order], np.maximum.accumulate(end_ns[order])
    opens = np.concatenate(([True], start_ns[1:] > end_ns[:-1]))
    closes = np.concatenate((opens[1:], [True]))
    return Intervals(start_ns[opens], end_ns[closes])


def window(start_ns: int, end_ns: int) -> Intervals:
    return union(np.array([start_ns], np.int64), np.array([end_ns], np.int64))


def _where(a: Intervals, b: Intervals, wanted: Rule) -> Intervals:
    times = np.concatenate((a.start_ns, a.end_ns, b.start_ns, b.end_ns))
    of_a, of_b = np.zeros(len(times), np.int8), np.zeros(len(times), np.int8)
    of_a[: len(a)], of_a[len(a) : 2 * len(a)] = 1, -1
    of_b[2 * len(a) : 2 * len(a) + len(b)], of_b[2 * len(a) + len(b) :] = 1, -1
    order = np.argsort(times, kind="stable")
    times = times[order]
    inside = wanted(np.cumsum(of_a[order], dtype=np.int8), np.cumsum(of_b[order], dtype=np.int8))[
        :-1
    ]
    return union(times[:-1][inside], times[1:][inside])
