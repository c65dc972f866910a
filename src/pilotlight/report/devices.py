"""What the node's devices did while the job ran: each counter's values, and events."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from pilotlight.recording.columns import Columns
from pilotlight.recording.recording import Recording

COUNTERS_LISTED = 2000
EVENTS_LISTED = 500
THROTTLE_REASONS = "throttle_reasons"
_REASONS = {
    0x4: "power limit",
    0x8: "hardware slowdown",
    0x10: "sync boost",
    0x20: "temperature",
    0x40: "temperature, hardware",
    0x80: "power brake",
    0x200: "board limit",
    0x400: "reliability",
}


@dataclass(frozen=True)
class DeviceValues:
    """`from_windows`: detail is no longer there for all of the job, so the 10 s sums tell."""

    device: str
    name: str
    unit: str
    count: int
    last: float
    mean: float
    min: float
    max: float
    from_windows: bool


@dataclass(frozen=True)
class DeviceEvent:
    since_start_ns: int
    device: str
    name: str
    value: int
    text: str


@dataclass(frozen=True)
class Throttling:
    """In which part of the readings of a GPU its clocks were held down, and why."""

    device: str
    reason: str
    ratio: float


@dataclass(frozen=True)
class Devices:
    values: tuple[DeviceValues, ...]
    events: tuple[DeviceEvent, ...]
    throttling: tuple[Throttling, ...]
    events_left_out: int


def devices_of(recording: Recording, start_ns: int) -> Devices:
    names = counter_names(recording)
    events = _events(recording, start_ns)
    return Devices(
        values=_values(recording, names),
        events=events[:EVENTS_LISTED],
        throttling=_throttling(recording, names),
        events_left_out=max(0, len(events) - EVENTS_LISTED),
    )


def counter_names(recording: Recording) -> dict[int, tuple[str, str, str]]:
    """Device, name and unit by the id of a counter."""
    names: dict[int, tuple[str, str, str]] = {}
    for table in (recording.windows("device_counters"), recording.detail("device_counters")):
        texts = (table.texts[key] for key in ("device", "name", "unit"))
        names.update(zip(table["id"].tolist(), zip(*texts, strict=True), strict=True))
    return names


def named(names: dict[int, tuple[str, str, str]], counter: int) -> tuple[str, str, str]:
    return names.get(counter, ("unknown", f"counter {counter:016x}", ""))


def _values(
    recording: Recording, names: dict[int, tuple[str, str, str]]
) -> tuple[DeviceValues, ...]:
    sums = recording.windows("device_windows")
    from_windows = bool(recording.manifest.lost.chunks_dropped and sums.rows)
    table = _as_windows(recording.detail("device_values")) if not from_windows else sums
    table = table.where(np.isfinite(table["mean"]) & (table["count"] > 0))
    result = []
    for counter, rows in _by_counter(table):
        device, name, unit = named(names, counter)
        count = int(rows["count"].sum())
        result.append(
            DeviceValues(
                device=device,
                name=name,
                unit=unit,
                count=count,
                last=float(rows["mean"][-1]),
                mean=float((rows["mean"] * rows["count"]).sum() / count),
                min=float(rows["min"].min()),
                max=float(rows["max"].max()),
                from_windows=from_windows,
            )
        )
    result.sort(key=lambda values: (values.device != "host", values.device, values.name))
    return tuple(result[:COUNTERS_LISTED])


def _as_windows(table: Columns) -> Columns:
    """Single values as windows of one each."""
    value = table["value"]
    columns = {
        "counter": table["counter"],
        "start_ns": table["time_ns"],
        "count": np.ones(table.rows, np.uint64),
        "mean": value,
        "min": value,
        "max": value,
    }
    return Columns(table.rows, columns, {})


def _by_counter(table: Columns) -> list[tuple[int, Columns]]:
    """The rows of each counter, in order of time."""
    order = np.lexsort((table["start_ns"], table["counter"]))
    arrays = {name: array[order] for name, array in table.arrays.items()}
    counters, first = np.unique(arrays["counter"], return_index=True)
    ends = [*first[1:].tolist(), table.rows][: first.size]
    return [
        (counter, Columns(end - begin, {n: a[begin:end] for n, a in arrays.items()}, {}))
        for counter, begin, end in zip(counters.tolist(), first.tolist(), ends, strict=True)
    ]


def _events(recording: Recording, start_ns: int) -> tuple[DeviceEvent, ...]:
    """Windows keep them for the whole job, detail has those of the last seconds too."""
    found: dict[tuple[int, str, str, int, str], None] = {}
    for table in (recording.windows("device_events"), recording.detail("device_events")):
        rows = zip(
            table["time_ns"].tolist(),
            table.texts["device"],
            table.texts["name"],
            table["value"].tolist(),
            table.texts["text"],
            strict=True,
        )
        found.update(dict.fromkeys(rows))
    return tuple(
        DeviceEvent(when - start_ns, device, name, value, text)
        for when, device, name, value, text in sorted(found)
    )


def _throttling(
    recording: Recording, names: dict[int, tuple[str, str, str]]
) -> tuple[Throttling, ...]:
    table = recording.detail("device_values")
    result = []
    for counter, (device, name, _) in sorted(names.items(), key=lambda item: item[1]):
        if name != THROTTLE_REASONS:
            continue
        values = table["value"][table["counter"] == counter]
        bits = values[np.isfinite(values) & (values >= 0) & (values < 2.0**63)].astype(np.int64)
        for bit, reason in _REASONS.items():
            ratio = float(((bits & bit) != 0).mean()) if bits.size else 0.0
            if ratio:
                result.append(Throttling(device, reason, ratio))
    return tuple(result)
