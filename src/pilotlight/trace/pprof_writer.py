"""Writes traces as a pprof profile: time and count by the path of spans that leads to it."""

from __future__ import annotations

import gzip
from collections.abc import Sequence
from pathlib import Path

from pilotlight.export.protobuf import integer, message, packed, text
from pilotlight.trace.nested import call_tree, lane_parts
from pilotlight.trace.trace import Trace

# profile.proto: Profile, then the messages in it.
_SAMPLE_TYPE, _SAMPLE, _LOCATION, _FUNCTION, _STRING, _DEFAULT_TYPE = 1, 2, 4, 5, 6, 14
_TYPE, _UNIT = 1, 2
_LOCATION_IDS, _VALUES, _LABEL = 1, 2, 3
_LABEL_KEY, _LABEL_TEXT, _LABEL_NUMBER = 1, 2, 3
_ID, _LINE, _LINE_FUNCTION, _NAME = 1, 4, 1, 2


def write_pprof(traces: Sequence[Trace], path: Path) -> None:
    strings: dict[str, int] = {"": 0}

    def number(value: str) -> int:
        return strings.setdefault(value, len(strings))

    def value_type(kind: str, unit: str) -> bytes:
        return message(_SAMPLE_TYPE, integer(_TYPE, number(kind)), integer(_UNIT, number(unit)))

    functions: dict[str, int] = {}
    with path.open("wb") as file, gzip.GzipFile(fileobj=file, mode="wb", mtime=0) as out:
        out.write(value_type("spans", "count") + value_type("time", "nanoseconds"))
        for trace in traces:
            rank = message(
                _LABEL, integer(_LABEL_KEY, number("rank")), integer(_LABEL_NUMBER, trace.rank)
            )
            for lane, rows in lane_parts(trace):
                place = trace.lanes[lane]
                title = place.name or f"{place.process} {place.thread}"
                where = message(
                    _LABEL,
                    integer(_LABEL_KEY, number("lane")),
                    integer(_LABEL_TEXT, number(title)),
                )
                nodes = call_tree(trace, rows)
                for node in nodes[1:]:
                    path_ids = []
                    at = node
                    while at is not nodes[0]:
                        name = trace.names[at.name]
                        path_ids.append(functions.setdefault(name, len(functions) + 1))
                        at = nodes[at.parent]
                    values = packed(_VALUES, (node.count, max(0, node.self_ns)))
                    out.write(
                        message(_SAMPLE, packed(_LOCATION_IDS, path_ids), values, rank, where)
                    )
        for name, identity in functions.items():
            line = message(_LINE, integer(_LINE_FUNCTION, identity))
            out.write(message(_LOCATION, integer(_ID, identity), line))
            out.write(message(_FUNCTION, integer(_ID, identity), integer(_NAME, number(name))))
        out.write(integer(_DEFAULT_TYPE, number("time")))
        for value in strings:
            out.write(text(_STRING, value))
