"""The detail of a Kineto trace, from the arguments of its spans."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from functools import cached_property
from math import prod
from typing import Any

import numpy as np

from pilotlight.trace.detail import Detail, Grids, Message, Messages, Operator, Operators
from pilotlight.trace.detail_row import begins_of
from pilotlight.trace.distinct import distinct
from pilotlight.trace.trace import NONE, Argument, Int64, Kind, Lane, Spans

_TYPE_BYTES = {
    "byte": 1, "char": 1, "int8": 1, "uint8": 1, "bool": 1, "float8": 1, "float8_e4m3fn": 1,
    "float8_e5m2": 1, "half": 2, "bfloat16": 2, "float16": 2, "short": 2, "int": 4, "int32": 4,
    "float": 4, "float32": 4, "long": 8, "int64": 8, "double": 8, "float64": 8,
}  # fmt: skip
_MOST_ELEMENTS = 1 << 48
# Operators whose cost depends on more than shapes.
_SETTINGS_COUNT = re.compile(r"convolution$|attention|[Ff]lash_?[Aa]ttn")
Arguments = Mapping[str, Argument]


class KinetoDetail(Detail):
    """Each part is made when it is first asked for: most questions do without."""

    def __init__(
        self, names: Sequence[str], lanes: Sequence[Lane], spans: Spans, arguments: Arguments
    ) -> None:
        self.__dict__["_told"] = names, lanes, spans, arguments

    @cached_property
    def operators(self) -> Operators:
        return _operators(*self.__dict__["_told"])

    @cached_property
    def messages(self) -> Messages:
        _, _, spans, arguments = self.__dict__["_told"]
        return _messages(spans, arguments)

    @cached_property
    def grids(self) -> Grids:
        _, _, spans, arguments = self.__dict__["_told"]
        return _grids(spans, arguments)


def _operators(
    names: Sequence[str], lanes: Sequence[Lane], spans: Spans, arguments: Arguments
) -> Operators:
    dims = arguments.get("Input Dims")
    if dims is None:
        return Operators()
    rows = dims.rows[spans.kind[dims.rows] == Kind.OPERATOR]
    types = _column("Input type", spans, arguments, rows)
    types = np.where(types == NONE, _column("Input Types", spans, arguments, rows), types)
    values = _values(names, spans, arguments, rows)
    columns = (spans.name[rows], _column("Input Dims", spans, arguments, rows), types, values)
    firsts, group = distinct(*columns)
    kinds: dict[Operator, int] = {}
    numbers = np.full(len(firsts), NONE, np.int64)
    for i, first in enumerate(firsts.tolist()):
        name, shape_text, type_text, value_text = (int(column[first]) for column in columns)
        shapes = _decoded(dims.texts[shape_text])
        if not isinstance(shapes, list):
            continue
        said = _decoded(dims.texts[type_text]) if type_text != NONE else None
        named = tuple(str(text)[:40] for text in said[:64]) if isinstance(said, list) else ()
        told = _decoded(dims.texts[value_text]) if value_text != NONE else None
        inputs = tuple(map(_value, told[:64])) if isinstance(told, list) else ()
        operator = Operator(names[name], tuple(map(_shape, shapes[:64])), named, inputs)
        numbers[i] = kinds.setdefault(operator, len(kinds))
    kind = numbers[group]
    rows, kind = rows[kind != NONE], kind[kind != NONE]
    threads: dict[str, int] = {}
    thread_of = np.array([threads.setdefault(lane.thread, len(threads)) for lane in lanes])
    return Operators(
        spans.start_ns[rows],
        spans.duration_ns[rows],
        thread_of[spans.lane[rows]],
        kind,
        tuple(kinds),
        tuple(threads),
    )


def _values(names: Sequence[str], spans: Spans, arguments: Arguments, rows: Any) -> Int64:
    """Of convolutions and attention only: those of others would make nearly every operator a kind
    of its own."""
    column = _column("Concrete Inputs", spans, arguments, rows)
    if not (column != NONE).any():
        return column
    used = np.unique(spans.name[rows])
    wanted = [name for name in used.tolist() if _SETTINGS_COUNT.search(names[name])]
    only: Int64 = np.where(np.isin(spans.name[rows], wanted), column, NONE)
    return only


def _grids(spans: Spans, arguments: Arguments) -> Grids:
    grid = arguments.get("grid")
    if grid is None or "block" not in arguments:
        return Grids()
    rows = _kernels(grid, spans)
    columns = tuple(_column(key, spans, arguments, rows) for key in ("grid", "block"))
    firsts, group = distinct(*columns)
    sizes = np.zeros((len(firsts), 3), np.int64)
    for i, first in enumerate(firsts.tolist()):
        for side, column in enumerate(columns):
            number = int(column[first])
            shape = _shape(_decoded(grid.texts[number])) if number != NONE else ()
            if shape and prod(shape) < 1 << 62:
                sizes[i, side] = prod(shape)
                sizes[i, 2] = sizes[i, 2] or shape[0]  # the grid comes first
    usable = ((sizes[:, 0] > 0) & (sizes[:, 1] > 0))[group]
    rows, group = rows[usable], group[usable]
    blocks, threads, along = sizes[group].T
    return Grids(spans.correlation[rows], blocks, threads, along, begins_of(spans, rows))


def _messages(spans: Spans, arguments: Arguments) -> Messages:
    operation = arguments.get("Collective name")
    if operation is None or "Group size" not in arguments:
        return Messages()
    rows = _kernels(operation, spans)
    keys = (
        "Collective name", "Group size", "Process Group Name", "Process Group Ranks", "dtype",
        "In msg nelems", "Out msg nelems", "Src Rank", "Dst Rank",
    )  # fmt: skip
    columns = np.stack([_column(key, spans, arguments, rows) for key in keys])
    kinds: dict[Message, int] = {}
    numbers = np.full(len(rows), NONE, np.int64)
    known: dict[tuple[int, ...], int] = {}
    for i, row in enumerate(map(tuple, columns.T.tolist())):
        if row not in known:
            message = _message(row, operation.texts)
            known[row] = NONE if message is None else kinds.setdefault(message, len(kinds))
        numbers[i] = known[row]
    rows, numbers = rows[numbers != NONE], numbers[numbers != NONE]
    return Messages(spans.correlation[rows], numbers, tuple(kinds), begins_of(spans, rows))


def _message(row: tuple[int, ...], texts: Sequence[str]) -> Message | None:
    """None without a size; the larger side is the message, as bandwidths count it."""
    operation, size, group, ranks, dtype, elements_in, elements_out, source, target = row
    if not 0 <= size < 1 << 31:
        return None
    elements = max((n for n in (elements_in, elements_out) if 0 <= n < _MOST_ELEMENTS), default=0)
    each = _TYPE_BYTES.get(texts[dtype].lower(), 0) if dtype != NONE else 0
    partner = next((rank for rank in (target, source) if 0 <= rank < 1 << 31), -1)
    parts = (
        texts[group][:80] if group != NONE else "",
        texts[ranks][:200] if ranks != NONE else "",
    )
    return Message(texts[operation][:80], " ".join(parts).strip(), size, elements * each, partner)


def _kernels(argument: Argument, spans: Spans) -> Any:
    """The rows of this argument that are kernels with a correlation."""
    rows = argument.rows
    return rows[(spans.kind[rows] == Kind.KERNEL) & (spans.correlation[rows] != NONE)]


def _column(key: str, spans: Spans, arguments: Arguments, rows: Any) -> Int64:
    argument = arguments.get(key)
    if argument is None:
        return np.full(len(rows), NONE, np.int64)
    column: Int64 = argument.dense(len(spans))[rows]
    return column


def _decoded(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def _value(text: Any) -> tuple[int, ...]:
    if not isinstance(text, str) or len(text) > 400:
        return ()
    return (1,) if text == "True" else _shape(_decoded(text))


def _shape(value: Any) -> tuple[int, ...]:
    if not isinstance(value, list) or len(value) > 16:
        return ()
    if not all(type(size) is int and 0 <= size < 1 << 40 for size in value):
        return ()
    return tuple(value)
