"""The counters and events of a node's devices, for formats with a time line."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from pilotlight.recording.columns import Array
from pilotlight.recording.recording import Recording
from pilotlight.report.devices import counter_names, named


@dataclass(frozen=True)
class DeviceTrack:
    title: str
    unit: str
    time_ns: Array
    values: Array


@dataclass(frozen=True)
class DeviceInstant:
    time_ns: int
    name: str
    value: int


def device_tracks(recording: Recording) -> Iterator[DeviceTrack]:
    table = recording.detail("device_values")
    table = table.where(np.isfinite(table["value"]))
    names = counter_names(recording)
    order = np.lexsort((table["time_ns"], table["counter"]))
    counters, times, values = (table[key][order] for key in ("counter", "time_ns", "value"))
    found, first = np.unique(counters, return_index=True)
    ends = [*first[1:].tolist(), counters.size][: first.size]
    pieces = [
        (named(names, counter), begin, end)
        for counter, begin, end in zip(found.tolist(), first.tolist(), ends, strict=True)
    ]
    for (device, name, unit), begin, end in sorted(pieces):
        yield DeviceTrack(f"{device} {name}", unit, times[begin:end], values[begin:end])


def device_instants(recording: Recording) -> Iterator[DeviceInstant]:
    table = recording.detail("device_events")
    for row in np.argsort(table["time_ns"], kind="stable").tolist():
        device, name, text = (table.texts[key][row] for key in ("device", "name", "text"))
        value = int(table["value"][row])
        title = f"{device} {name}" + (f" {value}" if value else "")
        yield DeviceInstant(int(table["time_ns"][row]), f"{title}: {text}", value)
