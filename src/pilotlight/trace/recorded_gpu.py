"""Device work and launches of a recording as spans; steps that were seen in full."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from pilotlight.recording.columns import Array, Columns
from pilotlight.recording.gpu_windows import GpuWindows
from pilotlight.recording.recording import Recording
from pilotlight.recording.schema import ActivityKind
from pilotlight.trace.trace import NONE, Kind, Lane, Spans

# A graph that was timed as a whole occupies the device like a kernel.
_KINDS = {
    ActivityKind.KERNEL: Kind.KERNEL,
    ActivityKind.GRAPH: Kind.KERNEL,
    ActivityKind.MEMCPY: Kind.MEMCPY,
    ActivityKind.MEMSET: Kind.MEMSET,
    ActivityKind.SYNCHRONIZATION: Kind.SYNC,
}
_WHOLE_RATIO = 0.999


@dataclass(frozen=True)
class DeviceSpans:
    """`lanes` are new ones, numbered from the first on that the caller named."""

    spans: Spans
    lanes: tuple[Lane, ...]


def device_spans(recording: Recording, process: int, pid: int, first_lane: int) -> DeviceSpans:
    """Launches on the lanes of their threads, work on those of its streams."""
    launches = _of(recording.detail("launches"), process)
    activities = _of(recording.detail("activities"), process)
    activities = activities.where(np.isin(activities["kind"], [int(kind) for kind in _KINDS]))
    threads, thread_lane = np.unique(launches["thread"], return_inverse=True)
    tracks, track_lane = np.unique(activities["track"], return_inverse=True)
    lanes = [
        Lane(str(pid), str(thread), recording.thread_names.get((process, int(thread)), ""))
        for thread in threads
    ]
    lanes += [_lane(recording, process, int(track)) for track in tracks]
    kinds = np.zeros(256, np.uint8)
    for kind, shown in _KINDS.items():
        kinds[kind] = shown
    runtime = np.full(launches.rows, Kind.RUNTIME, np.uint8)
    none = np.full(launches.rows, NONE, np.int64)
    spans = Spans(
        _joined(launches["start_ns"], activities["start_ns"]),
        _joined(launches["duration_ns"], activities["duration_ns"]),
        np.concatenate((runtime, kinds[activities["kind"]])),
        np.concatenate((_names(recording, launches), _names(recording, activities))),
        np.concatenate((thread_lane + first_lane, track_lane + first_lane + threads.size)).astype(
            np.uint32
        ),
        _joined(launches["correlation"], activities["correlation"]),
        np.concatenate((none, np.where(activities["bytes"] > 0, activities["bytes"], NONE))),
    )
    return DeviceSpans(spans, tuple(lanes))


def analysed_window(windows: GpuWindows | None) -> tuple[int, int] | None:
    """Where device records come and go, the longest time with them: outside it the device would
    seem idle. None: all of the recording."""
    if windows is None or not windows.records_ns:
        return None
    if windows.records_ns >= _WHOLE_RATIO * windows.watched_ns:
        return None
    begins, ends = windows.on_intervals()
    longest = int(np.argmax(ends - begins))
    return int(begins[longest]), int(ends[longest])


def _of(table: Columns, process: int) -> Columns:
    return table.where(table["process"] == process)


def _joined(first: Array, second: Array) -> Array:
    joined: Array = np.concatenate((first.astype(np.int64), second.astype(np.int64)))
    return joined


def _names(recording: Recording, rows: Columns) -> Array:
    found: Array = recording.names.find(rows["process"], rows["name"]).astype(np.uint32)
    return found


def _lane(recording: Recording, process: int, track: int) -> Lane:
    tracks = recording.detail("tracks")
    rows = np.flatnonzero((tracks["process"] == process) & (tracks["id"] == track))
    if not rows.size:
        return Lane("device", str(track), "")
    row = rows[:1]
    number = int(recording.names.find(tracks["process"][row], tracks["name"][row])[0])
    stream = str(int(tracks["stream"][row[0]]))
    return Lane(f"GPU {int(tracks['device'][row[0]])}", stream, recording.names.texts[number])
