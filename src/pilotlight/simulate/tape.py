"""What one simulated rank leaves behind: spans as a profiler would have recorded them."""

from __future__ import annotations

import numpy as np

from pilotlight.trace.step import steps_of
from pilotlight.trace.trace import NONE, Kind, Lane, Spans, Trace, no_counters

HOST, COMPUTE_STREAM, COMM_STREAM = 0, 1, 2


class Tape:
    """Times are microseconds of the job's own clock."""

    def __init__(self) -> None:
        self._rows: list[tuple[float, float, int, int, int, int, int]] = []
        self._names: dict[str, int] = {}
        self._correlation = 0

    def add(
        self,
        kind: Kind,
        name: str,
        start_us: float,
        end_us: float,
        lane: int = HOST,
        correlation: int = NONE,
        size: int = NONE,
    ) -> None:
        number = self._names.setdefault(name, len(self._names))
        self._rows.append((start_us, end_us, kind, number, lane, correlation, size))

    def next_correlation(self) -> int:
        self._correlation += 1
        return self._correlation

    def trace(self, rank: int, world_size: int, gpu: str) -> Trace:
        start, end, kind, name, lane, correlation, size = (
            np.array(column) for column in zip(*self._rows, strict=True)
        )
        start_ns = np.rint(start * 1000).astype(np.int64)
        end_ns = np.rint(end * 1000).astype(np.int64)
        spans = Spans(
            start_ns,
            end_ns - start_ns,
            kind.astype(np.uint8),
            name.astype(np.uint32),
            lane.astype(np.uint32),
            correlation.astype(np.int64),
            size.astype(np.int64),
        )
        names = tuple(self._names)
        return Trace(
            source=f"simulated rank {rank}",
            format="simulated",
            rank=rank,
            world_size=world_size,
            devices=(gpu,),
            names=names,
            lanes=(Lane("1000", "1000", "main"), Lane("0", "7"), Lane("0", "20")),
            spans=spans,
            counters=no_counters(),
            steps=steps_of(names, spans),
        )
