"""Which call launched which work of the device."""

from __future__ import annotations

import numpy as np

from pilotlight.trace.trace import NONE, Int64, Kind, Spans, Trace


def launch_rows(trace: Trace, device: Spans) -> tuple[Int64, Spans]:
    """For each device span the row of the call that launched it, or -1; and the calls."""
    calls = trace.of_kind(Kind.RUNTIME)
    calls = calls.take(calls.correlation != NONE)
    if not len(calls):
        return np.full(len(device), NONE, np.int64), calls
    order = np.argsort(calls.correlation, kind="stable")
    keys = calls.correlation[order]
    place = np.searchsorted(keys, device.correlation).clip(max=len(keys) - 1)
    rows = np.where(keys[place] == device.correlation, order[place], NONE)
    return rows.astype(np.int64), calls
