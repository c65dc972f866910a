"""How much memory a rank used over time, from its counters."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from pilotlight.insights.rank import RankView

_COUNTERS = ("allocated device", "memory_used", "memory.allocated", "memory.reserved")


@dataclass(frozen=True)
class MemoryUse:
    """Of one counter: its peak, when that was, and where it began and ended."""

    counter: str
    readings: int
    peak_bytes: int
    peak_ns: int
    first_bytes: int
    last_bytes: int


def memory_use(view: RankView) -> list[MemoryUse]:
    found = []
    counters = view.trace.counters
    for number in np.unique(counters.name).tolist():
        name = view.trace.names[number]
        if not any(text in name for text in _COUNTERS):
            continue
        rows = np.flatnonzero(counters.name == number)
        rows = rows[np.argsort(counters.time_ns[rows], kind="stable")]
        values = counters.value[rows]
        peak = int(values.argmax())
        found.append(
            MemoryUse(
                name,
                len(rows),
                int(values[peak]),
                int(counters.time_ns[rows[peak]]),
                int(values[0]),
                int(values[-1]),
            )
        )
    return found
