"""Reads the detail of a Kineto trace, in a second pass: most questions do without it."""

from __future__ import annotations

from math import prod
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from pilotlight.errors import FormatError
from pilotlight.trace.block import Truncated, expanded
from pilotlight.trace.detail import Detail, Grids, Message, Messages, Operator, Operators
from pilotlight.trace.eventlist import EventList
from pilotlight.trace.span_table import KIND_OF_CATEGORY, nanoseconds
from pilotlight.trace.trace import Kind

MAX_ROWS = 20_000_000
_TYPE_BYTES = {
    "byte": 1, "char": 1, "int8": 1, "uint8": 1, "bool": 1, "float8": 1, "float8_e4m3fn": 1,
    "float8_e5m2": 1, "half": 2, "bfloat16": 2, "float16": 2, "short": 2, "int": 4, "int32": 4,
    "float": 4, "float32": 4, "long": 8, "int64": 8, "double": 8, "float64": 8,
}  # fmt: skip


class _Arguments(msgspec.Struct, gc=False):
    dims: Any = msgspec.field(default=None, name="Input Dims")
    types: Any = msgspec.field(default=None, name="Input type")
    types_old: Any = msgspec.field(default=None, name="Input Types")
    correlation: Any = None
    grid: Any = None
    block: Any = None
    operation: Any = msgspec.field(default=None, name="Collective name")
    group: Any = msgspec.field(default=None, name="Process Group Name")
    ranks: Any = msgspec.field(default=None, name="Process Group Ranks")
    size: Any = msgspec.field(default=None, name="Group size")
    elements_in: Any = msgspec.field(default=None, name="In msg nelems")
    elements_out: Any = msgspec.field(default=None, name="Out msg nelems")
    type: Any = msgspec.field(default=None, name="dtype")
    source: Any = msgspec.field(default=None, name="Src Rank")
    target: Any = msgspec.field(default=None, name="Dst Rank")


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


def read_detail(path: Path) -> Detail:
    """What is not in the trace is empty; raises FormatError if there is too much of it."""
    events = EventList(
        str(path), msgspec.json.Decoder(list[_Event]), msgspec.json.Decoder(_Document)
    )
    rows = _Rows()
    try:
        with path.open("rb") as file:
            for piece in events.pieces(expanded(file, str(path))):
                for event in piece:
                    rows.add(event)
                if rows.count > MAX_ROWS:
                    raise FormatError(
                        f"{path}: more than {MAX_ROWS} operators and kernels: refused"
                    )
    except Truncated:
        pass  # the trace reader reports it, and what came before is good
    return rows.finish(events.metadata.get("baseTimeNanoseconds"))


class _Rows:
    def __init__(self) -> None:
        self.count = 0
        self.operators: list[tuple[float, float, int]] = []
        self.threads: list[str] = []
        self.operator_kinds: dict[Operator, int] = {}
        self.messages: list[tuple[int, int]] = []
        self.message_kinds: dict[Message, int] = {}
        self.grids: list[tuple[int, int, int]] = []

    def add(self, event: _Event) -> None:
        if event.ph != "X" or event.args is None:
            return
        kind = KIND_OF_CATEGORY.get(event.cat or "")
        if kind is Kind.OPERATOR:
            self._operator(event, event.args)
        elif kind is Kind.KERNEL and _whole(event.args.correlation, 1 << 62):
            self._kernel(event.args)

    def _operator(self, event: _Event, args: _Arguments) -> None:
        if not isinstance(args.dims, list):
            return
        types = args.types if args.types is not None else args.types_old
        names = tuple(str(text)[:40] for text in types[:64]) if isinstance(types, list) else ()
        operator = Operator(str(event.name), tuple(map(_shape, args.dims[:64])), names)
        number = self.operator_kinds.setdefault(operator, len(self.operator_kinds))
        self.operators.append((event.ts, event.dur, number))
        self.threads.append(str(event.tid))
        self.count += 1

    def _kernel(self, args: _Arguments) -> None:
        blocks, threads = (_shape(value) for value in (args.grid, args.block))
        if blocks and threads and prod(blocks) < 1 << 62:
            self.grids.append((args.correlation, prod(blocks), prod(threads)))
            self.count += 1
        message = _message(args)
        if message is not None:
            number = self.message_kinds.setdefault(message, len(self.message_kinds))
            self.messages.append((args.correlation, number))

    def finish(self, base_ns: Any) -> Detail:
        start_us, duration_us, kind = _columns(self.operators, 3)
        correlation, message = _columns(self.messages, 2)
        start_ns = nanoseconds(start_us.astype(np.float64))
        if isinstance(base_ns, int) and 0 < base_ns < 1 << 62:
            start_ns = start_ns + base_ns
        return Detail(
            Operators(
                start_ns,
                nanoseconds(duration_us.astype(np.float64)),
                tuple(self.threads),
                kind.astype(np.int64),
                tuple(self.operator_kinds),
            ),
            Messages(
                correlation.astype(np.int64), message.astype(np.int64), tuple(self.message_kinds)
            ),
            Grids(*(column.astype(np.int64) for column in _columns(self.grids, 3))),
        )


def _columns(rows: list[Any], count: int) -> tuple[np.ndarray[Any, Any], ...]:
    if not rows:
        return tuple(np.empty(0) for _ in range(count))
    return tuple(np.array(column) for column in zip(*rows, strict=True))


def _message(args: _Arguments) -> Message | None:
    """None without a name and a size; the larger side is the message, as bandwidths count it."""
    if not isinstance(args.operation, str) or not _whole(args.size, 1 << 31):
        return None
    elements = max(
        (n for n in (args.elements_in, args.elements_out) if _whole(n, 1 << 48)), default=0
    )
    each = _TYPE_BYTES.get(str(args.type).lower(), 0)
    partner = next((r for r in (args.target, args.source) if _whole(r, 1 << 31)), -1)
    group = f"{str(args.group)[:80]} {str(args.ranks or '')[:200]}".strip()
    return Message(args.operation[:80], group, args.size, elements * each, partner)


def _whole(value: Any, end: int) -> bool:
    return type(value) is int and 0 <= value < end


def _shape(value: Any) -> tuple[int, ...]:
    if not isinstance(value, list) or len(value) > 16:
        return ()
    if not all(_whole(size, 1 << 40) for size in value):
        return ()
    return tuple(value)
