"""The last, least and greatest value of every counter."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from pilotlight.recording.columns import group
from pilotlight.recording.recording import Recording

COUNTERS_LISTED = 500


@dataclass(frozen=True)
class CounterValues:
    """Of the detail that is still there; `not_numbers` were NaN or infinite and count nowhere."""

    process: int
    name: str
    count: int
    last: float
    min: float
    max: float
    not_numbers: int


def counter_values(recording: Recording) -> tuple[CounterValues, ...]:
    table = recording.detail("counters")
    number = recording.names.find(table["process"], table["name"])
    found, position = group(table["process"], number)
    order = np.lexsort((table["time_ns"], position))
    bounds = np.searchsorted(position[order], np.arange(found[0].size + 1)).tolist()
    values = table["value"][order]
    result = []
    pairs = zip(found[0].tolist(), found[1].tolist(), strict=True)
    for index, (process, name) in enumerate(list(pairs)[:COUNTERS_LISTED]):
        mine = values[bounds[index] : bounds[index + 1]]
        real = mine[np.isfinite(mine)]
        if real.size:
            result.append(
                CounterValues(
                    process=process,
                    name=recording.names.texts[name],
                    count=int(real.size),
                    last=float(real[-1]),
                    min=float(real.min()),
                    max=float(real.max()),
                    not_numbers=int(mine.size - real.size),
                )
            )
    return tuple(result)
