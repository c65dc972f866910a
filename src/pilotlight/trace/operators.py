"""Reads the operators of a Kineto trace with the shapes and types of their inputs."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from pilotlight.errors import FormatError
from pilotlight.trace.block import Truncated, expanded
from pilotlight.trace.eventlist import EventList
from pilotlight.trace.span_table import KIND_OF_CATEGORY, nanoseconds
from pilotlight.trace.trace import Int64, Kind

MAX_OPERATORS = 20_000_000


class _Arguments(msgspec.Struct, gc=False):
    dims: Any = msgspec.field(default=None, name="Input Dims")
    types: Any = msgspec.field(default=None, name="Input type")
    types_old: Any = msgspec.field(default=None, name="Input Types")


class _Event(msgspec.Struct, gc=False):
    ph: str = ""
    cat: str | None = None
    name: str | int | float | None = ""
    tid: int | str | float | None = None
    ts: float = 0.0
    dur: float = 0.0
    args: _Arguments | None = None


class _Document(msgspec.Struct):
    traceEvents: list[_Event]
    baseTimeNanoseconds: Any = None

    def metadata(self) -> dict[str, Any]:
        return {"baseTimeNanoseconds": self.baseTimeNanoseconds}


@dataclass(frozen=True)
class Operator:
    """`shapes` has a tuple an input, empty for what is no tensor."""

    name: str
    shapes: tuple[tuple[int, ...], ...]
    types: tuple[str, ...]


@dataclass(frozen=True)
class Operators:
    """Rows of operators; `kind` is a number in `kinds`, the distinct operators with shapes."""

    start_ns: Int64
    duration_ns: Int64
    thread: tuple[str, ...]
    kind: Int64
    kinds: tuple[Operator, ...]


def read_operators(path: Path) -> Operators:
    """Empty if the trace has no shapes (record_shapes=True)."""
    events = EventList(
        str(path), msgspec.json.Decoder(list[_Event]), msgspec.json.Decoder(_Document)
    )
    starts: list[float] = []
    durations: list[float] = []
    threads: list[str] = []
    numbers: list[int] = []
    kinds: dict[Operator, int] = {}
    try:
        with path.open("rb") as file:
            for piece in events.pieces(expanded(file, str(path))):
                for event in piece:
                    operator = _operator(event)
                    if operator is None:
                        continue
                    starts.append(event.ts)
                    durations.append(event.dur)
                    threads.append(str(event.tid))
                    numbers.append(kinds.setdefault(operator, len(kinds)))
                    if len(numbers) > MAX_OPERATORS:
                        raise FormatError(f"{path}: more than {MAX_OPERATORS} operators: refused")
    except Truncated:
        pass  # the trace reader reports it, and what came before is good
    base_ns = events.metadata.get("baseTimeNanoseconds")
    start_ns = nanoseconds(np.array(starts, np.float64))
    if isinstance(base_ns, int) and 0 < base_ns < 1 << 62:
        start_ns = start_ns + base_ns
    duration_ns = nanoseconds(np.array(durations, np.float64))
    kind = np.array(numbers, np.int64)
    return Operators(start_ns, duration_ns, tuple(threads), kind, tuple(kinds))


def _operator(event: _Event) -> Operator | None:
    if event.ph != "X" or KIND_OF_CATEGORY.get(event.cat or "") is not Kind.OPERATOR:
        return None
    if event.args is None or not isinstance(event.args.dims, list):
        return None
    types = event.args.types if event.args.types is not None else event.args.types_old
    names = tuple(str(text)[:40] for text in types[:64]) if isinstance(types, list) else ()
    return Operator(str(event.name), tuple(map(_shape, event.args.dims[:64])), names)


def _shape(value: Any) -> tuple[int, ...]:
    if not isinstance(value, list) or len(value) > 16:
        return ()
    if not all(type(size) is int and 0 <= size < 1 << 40 for size in value):
        return ()
    return tuple(value)
