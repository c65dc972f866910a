"""Windows that show some work of the GPU, and for how much time each of them stands."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from pilotlight.recording.columns import Array
from pilotlight.recording.gpu_windows import GpuWindows, Timed

# Of the shorter of its neighbours: a window below that was cut short.
_CUT_RATIO = 0.25
_LEAST_CHANGE = 0.1


@dataclass(frozen=True)
class Cells:
    """Windows that show some work, and for how much time each stands: to the middle of the gaps
    beside it. How much is seen follows what it costs, and work early in a job is not what it is
    later: so no share is that of the whole time.

    The first window, if it is there from the beginning, stands for itself: a program starts once.
    """

    begins_ns: Array
    ends_ns: Array
    shares: Array  # of a window's time in the time that it stands for, inverted
    from_start: bool
    start_ns: int
    end_ns: int

    @classmethod
    def of(cls, windows: GpuWindows, work: Timed) -> Cells:
        shown = windows.timed(work)
        changes = np.flatnonzero(np.diff(np.concatenate(([False], shown, [False]))))
        edges_ns = np.append(windows.start_ns, windows.end_ns)
        begins, ends = edges_ns[changes[::2]], edges_ns[changes[1::2]]
        return cls._between(edges_ns[0], begins, ends, edges_ns[-1], bool(shown[0]))

    @classmethod
    def _between(
        cls, start_ns: int, begins: Array, ends: Array, end_ns: int, from_start: bool
    ) -> Cells:
        middles = (ends[:-1] + begins[1:]) / 2
        return cls._parted(start_ns, begins, ends, end_ns, from_start, middles)

    @classmethod
    def _parted(
        cls,
        start_ns: int,
        begins: Array,
        ends: Array,
        end_ns: int,
        from_start: bool,
        middles: Array,
    ) -> Cells:
        if not begins.size:
            return cls(begins, ends, np.array([]), False, start_ns, end_ns)
        from_start = from_start and begins.size > 1
        if from_start:
            middles[0] = ends[0]
        cells = np.diff(np.concatenate(([start_ns], middles, [end_ns])))
        first = int(from_start)
        shares = _shares(cells[first:], (ends - begins)[first:])
        shares = np.concatenate((np.ones(first), shares))
        return cls(begins, ends, shares, from_start, start_ns, end_ns)

    @property
    def lengths_ns(self) -> Array:
        return self.ends_ns - self.begins_ns

    @property
    def middles_ns(self) -> Array:
        """Of the gaps between windows."""
        middles: Array = (self.ends_ns[:-1] + self.begins_ns[1:]) / 2
        return middles

    def only(self, these: Array) -> Cells:
        """As if there were no others."""
        from_start = self.from_start and bool(these[0])
        begins, ends = self.begins_ns[these], self.ends_ns[these]
        return self._between(self.start_ns, begins, ends, self.end_ns, from_start)

    def parted_at(self, middles_ns: Array) -> Cells:
        """The same where each stands for the gap behind it until then, the next one from then."""
        return self._parted(
            self.start_ns, self.begins_ns, self.ends_ns, self.end_ns, self.from_start, middles_ns
        )

    def begun_by(self, window: Array, times_ns: Array) -> Cells:
        """The same where each of these windows had begun at that time, whatever its mark says."""
        begins = self.begins_ns.copy()
        np.minimum.at(begins, window, times_ns)
        begins[1:] = np.maximum(begins[1:], self.ends_ns[:-1])
        begins[0] = max(begins[0], self.start_ns)
        return self._between(self.start_ns, begins, self.ends_ns, self.end_ns, self.from_start)

    def weights(self, heard_ns: Array, seen_ns: Array, at_ns: Array) -> Array:
        """For how many each activity `at` stands, by when the launches were that are `heard`, of
        which those are `seen`: so that all weights together are their number."""
        first = int(self.from_start)
        if not self.begins_ns.size:  # the marks of windows were lost
            return np.full(at_ns.size, heard_ns.size / max(seen_ns.size, 1))
        seen = np.bincount(self.place(seen_ns), minlength=self.begins_ns.size)
        heard_first = int((heard_ns < self.ends_ns[0]).sum()) if first else 0
        if not seen[first:].any() or (heard_first > 0 and seen[0] == 0):
            return np.full(at_ns.size, heard_ns.size / max(seen_ns.size, 1))
        of_each: Array = self.shares.copy()
        of_each[first:] = counted(
            self.shares[first:], seen[first:], self.lengths_ns[first:], heard_ns.size - heard_first
        )
        if first:
            of_each[0] = heard_first / max(int(seen[0]), 1)
        return of_each[self.place(at_ns)]

    def by_time(self, at_ns: Array) -> Array:
        """For how many each activity `at` stands, where only the time is known."""
        if not self.begins_ns.size:
            return np.ones(at_ns.size)
        of_each: Array = self.shares[self.place(at_ns)]
        return of_each

    def place(self, times_ns: Array) -> Array:
        place: Array = np.searchsorted(self.begins_ns, times_ns, side="right") - 1
        return np.maximum(place, 0)


def counted(shares: Array, seen: Array, lengths_ns: Array, count: float) -> Array:
    """For how many each stands of those that were `seen` in windows with these shares, so that all
    are the `count` that there was.

    What time alone is off by is that of the windows that see many: a busy program does more between
    windows than in them, and a short storm may have had fewer of them than it should. So each is
    changed by as much as it sees in a nanosecond (the least change, in squares, that gives the
    count), and what happens where little does stays what it is by time.
    """
    rates = seen / np.maximum(lengths_ns, 1)
    of_each = shares * seen
    by_rates = float((of_each * rates).sum())
    change = (count - float(of_each.sum())) / by_rates if by_rates > 0 else 0.0
    result: Array = shares * np.maximum(1 + change * rates, _LEAST_CHANGE)
    whole = float((result * seen).sum())
    return result * (count / whole) if whole > 0 else result


def _shares(cells: Array, lengths: Array) -> Array:
    """How often each window goes into the time that it stands for. One that was cut short does not
    stand for that much by its few records: it counts together with its neighbours."""
    edge = np.array([np.inf])
    least = np.minimum(np.append(edge, lengths[:-1]), np.append(lengths[1:], edge))
    is_cut = lengths < _CUT_RATIO * least
    together = _with_neighbours(cells) / np.maximum(_with_neighbours(lengths), 1)
    shares: Array = np.where(is_cut & (lengths.size > 1), together, cells / np.maximum(lengths, 1))
    return shares


def _with_neighbours(values: Array) -> Array:
    """Each and the one before and after it, added up."""
    sums = np.append(0, np.cumsum(values))
    place = np.arange(values.size)
    together: Array = sums[np.minimum(place + 2, values.size)] - sums[np.maximum(place - 1, 0)]
    return together
