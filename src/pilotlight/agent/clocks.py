"""Pairs of both clocks, so that a reader can tell wall-clock time also after it was stepped."""

from __future__ import annotations

import time

from pilotlight.recording.manifest import ClockPair

_STEP_NS = 50_000_000
_MOST_PAIRS = 64


def read_pair() -> ClockPair:
    """The realtime clock between two readings of the monotonic one."""
    before_ns = time.monotonic_ns()
    realtime_ns = time.time_ns()
    after_ns = time.monotonic_ns()
    return ClockPair((before_ns + after_ns) // 2, realtime_ns)


class Clocks:
    def __init__(self, first: ClockPair) -> None:
        self.pairs: tuple[ClockPair, ...] = (first,)

    def observe(self, pair: ClockPair) -> bool:
        """True: wall-clock time was stepped, and the pair was added."""
        last = self.pairs[-1]
        moved_ns = (pair.realtime_ns - pair.monotonic_ns) - (last.realtime_ns - last.monotonic_ns)
        if abs(moved_ns) <= _STEP_NS:
            return False
        # A clock that is stepped for ever: the first pair and the latest ones are worth most.
        kept = self.pairs if len(self.pairs) < _MOST_PAIRS else (self.pairs[0], *self.pairs[2:])
        self.pairs = (*kept, pair)
        return True
