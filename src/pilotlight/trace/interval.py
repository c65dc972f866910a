"""Sets of time: sorted, disjoint, half-open intervals as two columns."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from pilotlight import _scan
from pilotlight.trace.trace import Int64

# Bits of where a time is.
_FIRST, _OTHER, _BOTH = 2, 4, 8


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
        found, before = np.empty(len(time_ns), np.int64), np.empty(len(self) + 1, np.int64)
        _scan.cover(self.start_ns, self.end_ns, before, time_ns, found)
        return found

    def within_ns(self, start_ns: Int64, end_ns: Int64) -> Int64:
        """How much of the set lies within each window."""
        before = self.covered_before(np.concatenate((start_ns, end_ns)))
        return before[len(start_ns) :] - before[: len(start_ns)]

    # Most sets of a trace are empty, and most traces small: what is known is not computed.

    def __and__(self, other: Intervals) -> Intervals:
        if not len(self) or not len(other):
            return EMPTY
        return _where(self, other, _BOTH)

    def __or__(self, other: Intervals) -> Intervals:
        if not len(self) or not len(other):
            return self if len(self) else other
        return _where(self, other, _FIRST | _OTHER | _BOTH)

    def __sub__(self, other: Intervals) -> Intervals:
        if not len(self) or not len(other):
            return self
        return _where(self, other, _FIRST)


EMPTY = Intervals(np.empty(0, np.int64), np.empty(0, np.int64))


def union(start_ns: Int64, end_ns: Int64) -> Intervals:
    """The set that these intervals cover, in any order and however they overlap."""
    start, end = np.empty(len(start_ns), np.int64), np.empty(len(start_ns), np.int64)
    count = _scan.join(start_ns, end_ns, start, end)
    if count < 0:
        order = np.argsort(start_ns, kind="stable")
        count = _scan.join(start_ns[order], end_ns[order], start, end)
    return _first(count, start, end)


def window(start_ns: int, end_ns: int) -> Intervals:
    return union(np.array([start_ns], np.int64), np.array([end_ns], np.int64))


def _where(a: Intervals, b: Intervals, wanted: int) -> Intervals:
    most = len(a) + len(b)
    start, end = np.empty(most, np.int64), np.empty(most, np.int64)
    count = _scan.combine(a.start_ns, a.end_ns, b.start_ns, b.end_ns, wanted, start, end)
    return _first(count, start, end)


def _first(count: int, start_ns: Int64, end_ns: Int64) -> Intervals:
    """Copied: the room for all of them may be much more."""
    return Intervals(start_ns[:count].copy(), end_ns[:count].copy()) if count else EMPTY
