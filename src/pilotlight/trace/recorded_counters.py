"""The counters of a node in the traces of its processes: the host's, and those of their GPU."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from pilotlight.recording.recording import Recording
from pilotlight.trace.trace import Counters, Trace


def with_node_counters(recording: Recording, trace: Trace, local_rank: int | None) -> Trace:
    """Named `DEVICE NAME (UNIT)`. Of several GPUs a process has the one of its local rank; where
    that is not known, only the counters of the host."""
    table = recording.detail("device_values")
    named = recording.detail("device_counters")
    titles = {
        number: f"{device} {name} ({unit})" if unit else f"{device} {name}"
        for number, device, name, unit in zip(
            named["id"].tolist(),
            named.texts["device"],
            named.texts["name"],
            named.texts["unit"],
            strict=True,
        )
        if not device.startswith("gpu") or device == f"gpu{local_rank}"
    }
    table = table.where(np.isin(table["counter"], np.array(list(titles), np.uint64)))
    table = table.where(np.isfinite(table["value"]))
    if not table.rows:
        return trace
    known, place = np.unique(table["counter"], return_inverse=True)
    first = len(trace.names)
    counters = trace.counters
    return replace(
        trace,
        names=(*trace.names, *(titles[number] for number in known.tolist())),
        counters=Counters(
            np.concatenate((counters.time_ns, table["time_ns"].astype(np.int64))),
            np.concatenate((counters.name, (first + place).astype(np.uint32))),
            np.concatenate((counters.value, table["value"].astype(np.float64))),
        ),
    )
