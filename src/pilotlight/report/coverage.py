"""Which time a report speaks of, and whether detail or windows speak for it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from pilotlight.recording.columns import Array, Columns
from pilotlight.recording.recording import Recording
from pilotlight.recording.schema import WINDOW_NS

NEVER_NS = np.iinfo(np.int64).max


@dataclass(frozen=True)
class Coverage:
    """Times are CLOCK_MONOTONIC of the node.

    Before `detail_from_ns` of its process a time is told by windows, from there on by detail: never
    by both. `processes` are in the order of the other arrays, and sorted.
    """

    start_ns: int
    end_ns: int
    processes: Array
    process_start_ns: Array
    process_end_ns: Array
    detail_from_ns: Array

    @property
    def duration_ns(self) -> int:
        return self.end_ns - self.start_ns

    def place(self, process: Array) -> Array:
        """Positions in `processes`."""
        return np.searchsorted(self.processes, process)

    def detail_rows(self, process: Array, ended_ns: Array) -> Array:
        """Which rows of detail count."""
        mask: Array = ended_ns >= self.detail_from_ns[self.place(process)]
        return mask

    def window_rows(self, process: Array, start_ns: Array) -> Array:
        """Which windows count."""
        mask: Array = start_ns < self.detail_from_ns[self.place(process)]
        return mask


def coverage_of(recording: Recording) -> Coverage:
    recording.load()
    times = [
        (table["process"], ended)
        for name in ("samples", "spans", "counters", "marks", "steps", "sampler")
        for table in [recording.detail(name)]
        for ended in [_ended_ns(name, table)]
    ]
    windows = recording.windows("windows")
    window_steps = recording.windows("steps")
    processes = np.array([process.start.process for process in recording.processes], np.int64)
    first = np.full(processes.size, NEVER_NS)
    last = np.zeros(processes.size, np.int64)
    for process, ended in times:
        _widen(first, last, np.searchsorted(processes, process), ended)
    detail_first = first.copy()
    begun = first.copy()
    for name in ("spans", "steps"):
        table = recording.detail(name)
        place_of = np.searchsorted(processes, table["process"])
        np.minimum.at(begun, place_of, table["start_ns"])
    for table in (windows, window_steps):
        _widen(first, last, np.searchsorted(processes, table["process"]), table["start_ns"])

    for place, described in enumerate(recording.processes):
        if described.start.time_ns:
            # Windows begin before it; what is told one by one may: it was published before the
            # agent came.
            first[place] = min(described.start.time_ns, begun[place])
        if described.end is not None:
            last[place] = max(last[place], described.end.time_ns)
    first = np.where(first == NEVER_NS, 0, first)
    last = np.maximum(last, first)
    return Coverage(
        start_ns=int(first.min()) if first.size else 0,
        end_ns=int(last.max()) if last.size else 0,
        processes=processes,
        process_start_ns=first,
        process_end_ns=last,
        detail_from_ns=_detail_from(recording, detail_first, windows),
    )


def _ended_ns(name: str, table: Columns) -> Array:
    if "time_ns" in table.arrays:
        return table["time_ns"]
    ended: Array = table["start_ns"] + table["duration_ns"]
    return ended


def _widen(first: Array, last: Array, place: Array, times: Array) -> None:
    np.minimum.at(first, place, times)
    np.maximum.at(last, place, times)


def _detail_from(recording: Recording, detail_first_ns: Array, windows: Columns) -> Array:
    """Where no chunk was dropped detail tells all; else from the first window that it has whole."""
    dropped = recording.manifest.first_chunk > 1 or recording.manifest.lost.chunks_dropped > 0
    if recording.chunks and not dropped and int(recording.chunks[0].name) <= 1:
        return np.zeros(detail_first_ns.size, np.int64)
    result: Array = detail_first_ns.copy()
    for place, process in enumerate(recording.processes):
        starts = windows["start_ns"][windows["process"] == process.start.process]
        if starts.size and result[place] != NEVER_NS:
            phase = int(starts[0]) % WINDOW_NS
            whole = -(-(int(result[place]) - phase) // WINDOW_NS)
            result[place] = whole * WINDOW_NS + phase
    return result
