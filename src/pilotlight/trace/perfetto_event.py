"""Events of Perfetto's tracks, and what packets of one writer refer to by number."""

from __future__ import annotations

import struct
from dataclasses import dataclass, field

from pilotlight.trace.kineto import ARGUMENTS
from pilotlight.trace.protobuf import Field, fields, signed, text
from pilotlight.trace.trace import NONE

BEGIN, END, INSTANT, COUNTER = 1, 2, 3, 4
EVENT, CLOCK = 11, 58  # of a packet
_CATEGORY_IDS, _ANNOTATION, _LEGACY, _TYPE, _NAME_ID, _TRACK = 3, 4, 6, 9, 10, 11
_CATEGORIES, _NAME, _INTEGER_VALUE, _REAL_VALUE = 22, 23, 30, 44
_FLOWS, _LAST_FLOWS = (36, 47), (42, 48)
_COMPLETE = ord("X")
_CORRELATION = ("correlation", "corr_id", "correlation_id")
_SIZE = ("bytes", "size", "copy_bytes")


@dataclass
class Sequence:
    """What packets of one writer refer to by number."""

    names: dict[int, str] = field(default_factory=dict)
    categories: dict[int, str] = field(default_factory=dict)
    annotations: dict[int, str] = field(default_factory=dict)
    clock: int = 0
    track: int = 0


@dataclass
class Event:
    """A track event, in words."""

    type: int = 0
    track: int = 0
    name: str = ""
    category: str = ""
    correlation: int = NONE
    size_bytes: int = NONE
    value: float | None = None
    duration_ns: int = NONE
    flows: tuple[tuple[int, bool], ...] = ()
    arguments: dict[str, int | float | str] = field(default_factory=dict)


def event_of(data: memoryview, sequence: Sequence) -> Event:
    event = Event(track=sequence.track)
    flows: list[tuple[int, bool]] = []
    for number, value in fields(data):
        if isinstance(value, memoryview):
            if number == _NAME:
                event.name = text(value)
            elif number == _CATEGORIES:
                event.category = event.category or text(value)
            elif number == _ANNOTATION:
                _read_annotation(value, sequence, event)
            elif number == _LEGACY:
                _read_legacy(value, sequence, event)
        elif number == _TYPE:
            event.type = value
        elif number == _TRACK:
            event.track = value
        elif number == _NAME_ID:
            event.name = event.name or sequence.names.get(value, "")
        elif number == _CATEGORY_IDS:
            event.category = event.category or sequence.categories.get(value, "")
        elif number == _INTEGER_VALUE:
            event.value = float(signed(value))
        elif number == _REAL_VALUE:
            event.value = _double(value)
        elif number in _FLOWS or number in _LAST_FLOWS:
            flows.append((value, number in _LAST_FLOWS))
    event.flows = tuple(flows)
    return event


def _read_annotation(data: memoryview, sequence: Sequence, event: Event) -> None:
    name = ""
    found: int | float | str = NONE
    for number, value in fields(data):
        if number == 1 and isinstance(value, int):
            name = sequence.annotations.get(value, "")
        elif number == 10:
            name = text(value)
        elif number in (3, 4) and isinstance(value, int):
            found = signed(value)
        elif number == 5 and isinstance(value, int):
            found = _double(value)
        elif number == 6 and isinstance(value, memoryview):
            found = text(value)
    if name in _CORRELATION:
        event.correlation = _number(found)
    elif name in _SIZE:
        event.size_bytes = _number(found)
    elif name in ARGUMENTS:
        event.arguments[name] = found


def _number(value: int | float | str) -> int:
    if isinstance(value, str):
        return int(value) if len(value) < 20 and value.isascii() and value.isdigit() else NONE
    return value if isinstance(value, int) else NONE


def _read_legacy(data: memoryview, sequence: Sequence, event: Event) -> None:
    """How Chrome says that a slice is complete, or begins or ends."""
    found = {number: value for number, value in fields(data) if isinstance(value, int)}
    phase = found.get(2, 0)
    event.name = event.name or sequence.names.get(found.get(1, 0), "")
    if phase == _COMPLETE:
        event.duration_ns = max(0, signed(found.get(3, 0))) * 1000
    elif phase in (ord("B"), ord("E")):
        event.type = BEGIN if phase == ord("B") else END


def read_defaults(data: memoryview, sequence: Sequence) -> None:
    for number, value in fields(data):
        if number == CLOCK and isinstance(value, int):
            sequence.clock = value
        elif number == EVENT and isinstance(value, memoryview):
            for inner, track in fields(value):
                if inner == _TRACK and isinstance(track, int):
                    sequence.track = track


def read_interned(data: memoryview, sequence: Sequence) -> None:
    targets = {1: sequence.categories, 2: sequence.names, 3: sequence.annotations}
    for number, value in fields(data):
        if number in targets and isinstance(value, memoryview):
            entry = dict(fields(value))
            targets[number][whole(entry.get(1))] = text(entry.get(2, 0))


def whole(value: Field | None) -> int:
    return value if isinstance(value, int) else 0


def _double(value: int) -> float:
    return float(struct.unpack("<d", value.to_bytes(8, "little"))[0])
