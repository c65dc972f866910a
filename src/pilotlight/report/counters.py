"""The last, least and greatest value of every counter."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

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
    order = np.lexsort((table["time_ns"], number, table["process"]))
    keys = np.stack([table["process"][order].astype(np.int64), number[order]])
    found, first = np.unique(keys, axis=1, return_index=True)
    bounds = [*np.sort(first).tolist(), order.size]
    values = table["value"][order]
    result = []
    for index, (process, name) in enumerate(found.T.tolist()[:COUNTERS_LISTED]):
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
