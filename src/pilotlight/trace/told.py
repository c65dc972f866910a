"""What spans say of themselves, under the names that Kineto gives it: for writers."""

from __future__ import annotations

import json
from typing import Any

import numpy as np

from pilotlight.trace.detail import Grids, Message
from pilotlight.trace.detail_row import detail_rows
from pilotlight.trace.trace import NONE, Argument, Int64, Kind, Trace

# Lists in a trace, and kept as their text.
LISTS = frozenset({"Input Dims", "Input type", "Input Types", "Concrete Inputs", "grid", "block"})
Told = dict[str, Any]


def told(trace: Trace, rows: Int64) -> list[Told]:
    """Of each of these rows. What the trace was read with, or what is known of its kernels."""
    if trace.arguments:
        return _as_read(trace, rows)
    found: list[Told] = [{} for _ in rows]
    spans = trace.spans.take(rows)
    grids, messages = trace.detail.grids, trace.detail.messages
    for args, is_kernel, grid, message in zip(
        found,
        spans.is_kind(Kind.KERNEL).tolist(),
        detail_rows(grids, spans).tolist(),
        detail_rows(messages, spans).tolist(),
        strict=True,
    ):
        if not is_kernel:
            continue
        if grid != NONE:
            args |= _of_grid(grids, grid)
        if message != NONE:
            args |= _of_message(messages.kinds[messages.kind[message]])
    return found


def _as_read(trace: Trace, rows: Int64) -> list[Told]:
    found: list[Told] = [{} for _ in rows]
    for key, argument in trace.arguments.items():
        if not len(argument.rows):
            continue
        place = np.searchsorted(argument.rows, rows).clip(max=len(argument.rows) - 1)
        for i in np.flatnonzero(argument.rows[place] == rows).tolist():
            found[i][key] = _value(key, argument, int(place[i]))
    return found


def _value(key: str, argument: Argument, place: int) -> Any:
    value = argument.values[place].item()
    if not argument.texts:
        return value
    text = argument.texts[value]
    if key not in LISTS:
        return text
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text


def _of_grid(grids: Grids, row: int) -> Told:
    blocks, along = int(grids.blocks[row]), int(grids.along[row]) if len(grids.along) else 0
    sides = [along, blocks // along, 1] if along and not blocks % along else [blocks, 1, 1]
    return {"grid": sides, "block": [int(grids.threads[row]), 1, 1]}


def _of_message(message: Message) -> Told:
    args: Told = {
        "Collective name": message.operation,
        "Process Group Name": message.group,
        "Group size": message.size,
        "In msg nelems": message.bytes,
        "Out msg nelems": message.bytes,
        "dtype": "Byte",
    }
    if message.partner >= 0:
        args["Dst Rank"] = message.partner
    return args
