"""What ran on devices, as tracks; and the calls that launched it, with arrows between them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from pilotlight.export.stacks import thread_label
from pilotlight.export.timeline import Slice, nested_lanes
from pilotlight.recording.columns import Columns
from pilotlight.recording.recording import Recording
from pilotlight.recording.schema import NO_WORK


@dataclass(frozen=True)
class Work(Slice):
    """`flow` is the same for a call and what it launched; 0: none."""

    flow: int


@dataclass(frozen=True)
class WorkTrack:
    """`is_device`: arrows end here; else they begin. All slices of a track nest."""

    process: int
    title: str
    is_device: bool
    work: list[Slice]


def gpu_tracks(recording: Recording) -> Iterator[WorkTrack]:
    """A track for each thread that launched work, then one for each stream."""
    yield from _calls(recording)
    yield from _streams(recording)


def _streams(recording: Recording) -> Iterator[WorkTrack]:
    activities = recording.detail("activities")
    activities = activities.where(~np.isin(activities["kind"], NO_WORK))
    titles = _titles(recording)
    for process, mine in _by(activities, "process"):
        for track, rows in _by(mine, "track"):
            title = titles.get((process, track), f"device track {track}")
            # Waits for a stream lie over its work.
            for lane in nested_lanes(_work(recording, rows)):
                yield WorkTrack(process, title, True, lane)


def _calls(recording: Recording) -> Iterator[WorkTrack]:
    for process, mine in _by(recording.detail("launches"), "process"):
        for thread, rows in _by(mine, "thread"):
            title = f"{thread_label(recording, process, thread)}: device calls"
            for lane in nested_lanes(_work(recording, rows)):
                yield WorkTrack(process, title, False, lane)


def _titles(recording: Recording) -> dict[tuple[int, int], str]:
    tracks = recording.detail("tracks")
    found = recording.names.find(tracks["process"], tracks["name"]).tolist()
    keys = zip(tracks["process"].tolist(), tracks["id"].tolist(), strict=True)
    return {key: recording.names.texts[number] for key, number in zip(keys, found, strict=True)}


def _work(recording: Recording, rows: Columns) -> list[Slice]:
    order = np.argsort(rows["start_ns"], kind="stable")
    found = recording.names.find(rows["process"], rows["name"])[order].tolist()
    names = ("start_ns", "duration_ns", "correlation", "process")
    columns = [rows[name][order].tolist() for name in names]
    return [
        Work(
            start,
            start + length,
            recording.names.texts[number],
            (process + 1) << 40 | correlation if correlation else 0,
        )
        for start, length, correlation, process, number in zip(*columns, found, strict=True)
    ]


def _by(table: Columns, column: str) -> Iterator[tuple[int, Columns]]:
    values = table[column]
    for value in np.unique(values).tolist():
        yield int(value), table.where(values == value)
