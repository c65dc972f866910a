"""pprof: a gzipped profile.proto with samples and wall time by stack."""

from __future__ import annotations

import gzip
from typing import BinaryIO

from pilotlight.export.protobuf import integer, message, packed, text
from pilotlight.export.stacks import stack_sums, thread_label
from pilotlight.recording.definitions import Frame
from pilotlight.recording.recording import Recording
from pilotlight.report.coverage import coverage_of

# profile.proto: Profile, then the messages in it.
_SAMPLE_TYPE, _SAMPLE, _LOCATION, _FUNCTION, _STRING = 1, 2, 4, 5, 6
_TIME_NANOS, _DURATION_NANOS, _PERIOD_TYPE, _PERIOD, _COMMENT, _DEFAULT_TYPE = 9, 10, 11, 12, 13, 14
_TYPE, _UNIT = 1, 2
_LOCATION_IDS, _VALUES, _LABEL = 1, 2, 3
_LABEL_KEY, _LABEL_TEXT, _LABEL_NUMBER = 1, 2, 3
_ID, _LINE, _LINE_FUNCTION, _LINE_NUMBER = 1, 4, 1, 2
_NAME, _FILE, _START_LINE = 2, 4, 5


class _Strings:
    """The string table: number 0 is the empty string."""

    def __init__(self) -> None:
        self.numbers = {"": 0}

    def number(self, value: str) -> int:
        return self.numbers.setdefault(value, len(self.numbers))


def write_pprof(recording: Recording, out: BinaryIO) -> None:
    with gzip.GzipFile(fileobj=out, mode="wb", mtime=0, filename="") as packed_out:
        _write_profile(recording, packed_out)


def _write_profile(recording: Recording, out: gzip.GzipFile) -> None:
    strings = _Strings()
    ranks = {process.start.process: process.rank for process in recording.processes}
    pids = {process.start.process: process.start.pid for process in recording.processes}

    def value_type(field: int, kind: str, unit: str) -> bytes:
        return message(
            field, integer(_TYPE, strings.number(kind)), integer(_UNIT, strings.number(unit))
        )

    def label(key: str, value: str | int) -> bytes:
        what = (
            integer(_LABEL_NUMBER, value)
            if isinstance(value, int)
            else integer(_LABEL_TEXT, strings.number(value))
        )
        return message(_LABEL, integer(_LABEL_KEY, strings.number(key)), what)

    out.write(value_type(_SAMPLE_TYPE, "samples", "count"))
    out.write(value_type(_SAMPLE_TYPE, "wall", "nanoseconds"))
    locations: set[int] = set()
    paths: dict[int, bytes] = {}
    for row in stack_sums(recording):
        if row.node not in paths:
            path = _frame_numbers(recording, row.node)
            locations.update(path)
            paths[row.node] = packed(_LOCATION_IDS, (number + 1 for number in path))
        labels = [
            label("thread", thread_label(recording, row.process, row.thread)),
            label("state", row.state),
            label("pid", pids.get(row.process, 0)),
        ]
        rank = ranks.get(row.process)
        if rank is not None:
            # As text: pprof takes the number 0 for a label that is not there.
            labels.append(label("rank", str(rank)))
        out.write(
            message(
                _SAMPLE,
                paths[row.node],
                packed(_VALUES, (row.samples, row.weight_ns)),
                *labels,
            )
        )

    functions: dict[tuple[str, str, int], int] = {}
    for number in sorted(locations):
        frame = recording.calls.frame_list[number]
        key = (frame.function, frame.file, frame.first_line)
        known = len(functions)
        function = functions.setdefault(key, known + 1)
        if function == known + 1:
            out.write(_function(strings, function, frame))
        line = message(_LINE, integer(_LINE_FUNCTION, function), integer(_LINE_NUMBER, frame.line))
        out.write(message(_LOCATION, integer(_ID, number + 1), line))

    manifest = recording.manifest
    period_ns = _period_ns(recording)
    if period_ns:
        out.write(value_type(_PERIOD_TYPE, "wall", "nanoseconds") + integer(_PERIOD, period_ns))
    out.write(integer(_TIME_NANOS, max(manifest.created_ns, 0)))
    out.write(integer(_DURATION_NANOS, coverage_of(recording).duration_ns))
    out.write(integer(_COMMENT, strings.number(f"pilotlight: {manifest.job}")))
    out.write(integer(_DEFAULT_TYPE, strings.number("wall")))
    for value in strings.numbers:
        out.write(text(_STRING, value))


def _frame_numbers(recording: Recording, node: int) -> list[int]:
    """Positions in the list of frames, innermost first as pprof has them."""
    calls = recording.calls
    numbers = []
    while node:
        numbers.append(calls.frames[node])
        node = calls.parents[node]
    return numbers


def _function(strings: _Strings, number: int, frame: Frame) -> bytes:
    # No system name: pprof would take <module> and <lambda> for templates of C++, and cut them off.
    return message(
        _FUNCTION,
        integer(_ID, number),
        integer(_NAME, strings.number(frame.function)),
        integer(_FILE, strings.number(frame.file)),
        integer(_START_LINE, frame.first_line),
    )


def _period_ns(recording: Recording) -> int:
    periods = recording.detail("sampler")["period_ns"]
    return int(periods[-1]) if periods.size else 0
