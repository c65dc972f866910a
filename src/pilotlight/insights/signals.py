"""Counters of a rank by their names: those of docs/counters.md, after the device, before a unit."""

from __future__ import annotations

import numpy as np

from pilotlight.insights.rank import RankView
from pilotlight.trace.trace import Float64, Trace


def values(trace: Trace, name: str) -> Float64:
    """All readings of `name` or `DEVICE name`, in the order of time; empty if there are none."""
    wanted = [
        number
        for number in np.flatnonzero(np.bincount(trace.counters.name)).tolist()
        if _without_unit(trace.names[number]).endswith(f" {name}") or trace.names[number] == name
    ]
    rows = np.isin(trace.counters.name, wanted)
    order = np.argsort(trace.counters.time_ns[rows], kind="stable")
    found: Float64 = trace.counters.value[rows][order]
    return found


def _without_unit(name: str) -> str:
    return name.rpartition(" (")[0] if name.endswith(")") else name


def mean(view: RankView, name: str) -> float | None:
    """None if nobody read it."""
    found = values(view.trace, name)
    return float(found.mean()) if len(found) else None


def growth(view: RankView, name: str) -> float:
    """Of a count: how much it grew while it was read."""
    found = values(view.trace, name)
    return float(found[-1] - found[0]) if len(found) > 1 else 0.0
