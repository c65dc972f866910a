"""What one simulated rank leaves behind: spans as a profiler would have recorded them."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from pilotlight.trace.detail import Detail, Message, Messages
from pilotlight.trace.step import steps_of
from pilotlight.trace.trace import NONE, Counters, Float64, Kind, Lane, Spans, Trace

HOST = 0
COMPUTE_STREAM = 1
COMM_STREAM = 2
# Each direction between stages has a stream of its own, as have the inner collectives.
SEND_FORWARD, RECEIVE_FORWARD, SEND_BACKWARD, RECEIVE_BACKWARD = 3, 4, 5, 6
INNER_STREAM = 7
_LANES = (
    Lane("1000", "1000", "main"),
    *(Lane("0", number) for number in ("7", "20", "24", "25", "26", "27", "28")),
)


@dataclass
class Tape:
    """A span lies between two points; a point is the begin (2 * node) or end (2 * node + 1) of a
    node."""

    rows: list[tuple[int, int, int, int, int, int, int]] = field(default_factory=list)
    names: dict[str, int] = field(default_factory=dict)
    messages: list[tuple[int, int]] = field(default_factory=list)
    kinds: dict[Message, int] = field(default_factory=dict)
    _correlation: int = 0

    def add(
        self,
        kind: Kind,
        name: str,
        begin: int,
        end: int,
        lane: int = HOST,
        correlation: int = NONE,
        size: int = NONE,
    ) -> None:
        number = self.names.setdefault(name, len(self.names))
        self.rows.append((begin, end, kind, number, lane, correlation, size))

    def message(self, correlation: int, message: Message) -> None:
        self.messages.append((correlation, self.kinds.setdefault(message, len(self.kinds))))

    def next_correlation(self) -> int:
        self._correlation += 1
        return self._correlation

    def trace(
        self,
        rank: int,
        world_size: int,
        gpu: str,
        begins_us: Float64,
        ends_us: Float64,
        counters: dict[str, float],
    ) -> Trace:
        begin, end, kind, name, lane, correlation, size = (
            np.array(column) for column in zip(*self.rows, strict=True)
        )

        def time_ns(point: np.ndarray[tuple[int], np.dtype[np.int64]]) -> Float64:
            node = point // 2
            times: Float64 = np.where(point % 2, ends_us[node], begins_us[node])
            return np.rint(1000 * times)

        start_ns = time_ns(begin).astype(np.int64)
        spans = Spans(
            start_ns,
            time_ns(end).astype(np.int64) - start_ns,
            kind.astype(np.uint8),
            name.astype(np.uint32),
            lane.astype(np.uint32),
            correlation.astype(np.int64),
            size.astype(np.int64),
        )
        span_names = tuple(self.names)
        steps = steps_of(span_names, spans)
        of_message, kind_of_message = (
            np.array([row[i] for row in self.messages], np.int64) for i in (0, 1)
        )
        count = len(steps)
        times = np.tile(steps.start_ns + steps.duration_ns // 2, len(counters))
        return Trace(
            source=f"simulated rank {rank}",
            format="simulated",
            rank=rank,
            world_size=world_size,
            devices=(gpu,),
            names=(*span_names, *counters),
            lanes=_LANES,
            spans=spans,
            counters=Counters(
                times,
                np.repeat(np.arange(len(counters)) + len(span_names), count).astype(np.uint32),
                np.repeat(np.array(list(counters.values()), np.float64), count),
            ),
            steps=steps,
            detail=Detail(messages=Messages(of_message, kind_of_message, tuple(self.kinds))),
        )
