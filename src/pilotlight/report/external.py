"""Device time by the ids that a program pushed to CUPTI around its launches (docs/gpu.md)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from pilotlight.recording.recording import Recording
from pilotlight.recording.schema import NO_WORK, ActivityKind

EXTERNAL_LISTED = 200


@dataclass(frozen=True)
class ExternalTime:
    """Of the work that was recorded inside this id; `kind` says whose it is."""

    process: int
    kind: str
    id: int
    count: int
    total_ns: int


def external_of(recording: Recording) -> tuple[ExternalTime, ...]:
    """Those with most time on the device first."""
    rows = recording.detail("activities")
    ids = rows.where(rows["kind"] == ActivityKind.EXTERNAL_ID)
    if not ids.rows:
        return ()
    work = rows.where(~np.isin(rows["kind"], NO_WORK) & (rows["correlation"] != 0))
    spent: dict[tuple[int, int], tuple[int, int]] = {}
    columns = (work["process"].tolist(), work["correlation"].tolist())
    for process, correlation, length_ns in zip(*columns, work["duration_ns"].tolist(), strict=True):
        count, total_ns = spent.get((process, correlation), (0, 0))
        spent[process, correlation] = (count + 1, total_ns + length_ns)
    sums: dict[tuple[int, str, int], tuple[int, int]] = {}
    names = recording.names.find(ids["process"], ids["name"]).tolist()
    pushed = (ids["process"].tolist(), ids["correlation"].tolist(), ids["detail"].tolist())
    # A driver's call inside the runtime's may tell the same id again.
    told = set(zip(*pushed, names, strict=True))
    for process, correlation, number, name in told:
        key = (process, recording.names.texts[name], number)
        count, total_ns = sums.get(key, (0, 0))
        more, more_ns = spent.get((process, correlation), (0, 0))
        sums[key] = (count + more, total_ns + more_ns)
    found = [ExternalTime(*key, count, total_ns) for key, (count, total_ns) in sums.items()]
    found.sort(key=lambda one: (-one.total_ns, one.process, one.kind, one.id))
    return tuple(found)
