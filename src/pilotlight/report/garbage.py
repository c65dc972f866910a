"""What the garbage collector of Python cost."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from pilotlight.recording.recording import Recording
from pilotlight.recording.schema import SpanKind, WindowKind
from pilotlight.report.coverage import Coverage


@dataclass(frozen=True)
class GarbageTimes:
    """`ratio` is the share of the process's life; `longest_since_start_ns` of the recording's."""

    process: int
    count: int
    total_ns: int
    ratio: float
    longest_ns: int
    longest_since_start_ns: int | None


def garbage_times(recording: Recording, coverage: Coverage) -> tuple[GarbageTimes, ...]:
    spans = recording.detail("spans")
    ended = spans["start_ns"] + spans["duration_ns"]
    late = spans.where(
        (spans["kind"] == SpanKind.GC) & coverage.detail_rows(spans["process"], ended)
    )
    sums = recording.windows("windows")
    early = sums.where(
        (sums["kind"] == WindowKind.GC) & coverage.window_rows(sums["process"], sums["start_ns"])
    )
    found = np.unique(np.concatenate([late["process"], early["process"]]))
    result = []
    for process in found.tolist():
        mine = late.where(late["process"] == process)
        before = early.where(early["process"] == process)
        place = int(coverage.place(np.array(process)))
        lifetime = int(coverage.process_end_ns[place] - coverage.process_start_ns[place])
        total_ns = int(mine["duration_ns"].sum()) + int(before["total_ns"].sum())
        longest_ns, where_ns = int(before["max_ns"].max(initial=0)), None
        if mine.rows and int(mine["duration_ns"].max()) >= longest_ns:
            longest = int(np.argmax(mine["duration_ns"]))
            longest_ns = int(mine["duration_ns"][longest])
            where_ns = int(mine["start_ns"][longest]) - coverage.start_ns
        result.append(
            GarbageTimes(
                process=process,
                count=mine.rows + int(before["count"].sum()),
                total_ns=total_ns,
                ratio=total_ns / lifetime if lifetime else 0.0,
                longest_ns=longest_ns,
                longest_since_start_ns=where_ns,
            )
        )
    return tuple(result)
