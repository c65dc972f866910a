"""Writes traces for speedscope: a profile for each lane, all sharing one list of frames."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import IO, Any

from pilotlight.trace.nested import lane_parts
from pilotlight.trace.trace import Trace

SCHEMA = "https://www.speedscope.app/file-format-schema.json"


def write_speedscope(traces: Sequence[Trace], path: Path) -> None:
    first_frame = 0
    frames: list[dict[str, str]] = []
    offsets = []
    for trace in traces:
        offsets.append(first_frame)
        frames += [{"name": name} for name in trace.names]
        first_frame = len(frames)
    head = {"$schema": SCHEMA, "exporter": "pilotlight", "shared": {"frames": frames}}
    with path.open("w", encoding="utf-8") as file:
        file.write(json.dumps(head)[:-1] + ', "profiles": [')
        separator = ""
        for trace, offset in zip(traces, offsets, strict=True):
            for lane, rows in lane_parts(trace):
                file.write(separator)
                _write_profile(trace, lane, rows, offset, file)
                separator = ",\n"
        file.write("]}\n")


def _write_profile(trace: Trace, lane: int, rows: list[int], offset: int, file: IO[str]) -> None:
    spans = trace.spans
    place = trace.lanes[lane]
    head = {
        "type": "evented",
        "name": f"rank {trace.rank} {place.name or f'{place.process} {place.thread}'}",
        "unit": "nanoseconds",
        "startValue": int(spans.start_ns[rows[0]]),
        "endValue": int(spans.end_ns[rows].max()),
    }
    file.write(json.dumps(head)[:-1] + ', "events": [')
    separator = ""
    for event in _events(trace, rows, offset):
        file.write(separator + json.dumps(event))
        separator = ","
    file.write("]}")


def _events(trace: Trace, rows: list[int], offset: int) -> Iterator[dict[str, Any]]:
    spans = trace.spans
    stack: list[tuple[int, int]] = []
    for row in rows:
        begin = int(spans.start_ns[row])
        while stack and stack[-1][0] <= begin:
            end, frame = stack.pop()
            yield {"type": "C", "frame": frame, "at": end}
        frame = offset + int(spans.name[row])
        yield {"type": "O", "frame": frame, "at": begin}
        stack.append((begin + int(spans.duration_ns[row]), frame))
    while stack:
        end, frame = stack.pop()
        yield {"type": "C", "frame": frame, "at": end}
