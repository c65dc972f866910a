"""How far this node's clock is from the collector's, and how sure that is."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass

_KEPT = 16


@dataclass(frozen=True)
class Offset:
    """To be added to this node's time to get the collector's."""

    offset_ns: int
    uncertainty_ns: int

    @property
    def header(self) -> str:
        return f"{self.offset_ns};{self.uncertainty_ns}"


class ClockOffset:
    """The answer that took least time is the surest; a step of either clock shows at once."""

    def __init__(self) -> None:
        self._samples: deque[Offset] = deque(maxlen=_KEPT)

    def observe(self, sent_ns: int, received_ns: int, answered_ns: int, back_ns: int) -> None:
        """`sent` and `back` on this node's clock, `received` and `answered` on the collector's."""
        travel_ns = (back_ns - sent_ns) - (answered_ns - received_ns)
        if travel_ns < 0:
            return  # a clock was stepped meanwhile
        offset_ns = ((received_ns - sent_ns) + (answered_ns - back_ns)) // 2
        sample = Offset(offset_ns, travel_ns // 2 + 1)
        if self._samples and not _agree(self.best, sample):
            self._samples.clear()
        self._samples.append(sample)

    @property
    def best(self) -> Offset | None:
        return min(self._samples, key=lambda one: one.uncertainty_ns, default=None)


def _agree(one: Offset | None, other: Offset) -> bool:
    if one is None:
        return True
    apart_ns = abs(one.offset_ns - other.offset_ns)
    return apart_ns <= one.uncertainty_ns + other.uncertainty_ns + 50_000_000
