"""Tables of the verbs that ask a collector."""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Collection, Sequence
from typing import Any

from pilotlight.asking import Asking
from pilotlight.cli.terminal import console

_FILE_COLUMNS = 1 << 16  # a program reads it: nothing gives way
_LEFT = ("job", "state", "node", "name", "operation", "group", "command", "where")


def show(
    asking: Asking,
    data: Any,
    as_json: bool,
    titles: Sequence[str],
    rows: Any,
    left: Collection[str] = _LEFT,
) -> int:
    """`rows` makes the cells of the table from the data; the columns in `left` are text."""
    if asking.is_partial:
        print("partial: a part of the store does not answer", file=sys.stderr)
    if as_json:
        print(json.dumps(data))
        return 0
    from rich.table import Table

    table = Table(box=None, pad_edge=False, header_style="bold")
    for title in titles:
        # On a narrow terminal the widest gives way, and what does not fit goes on below.
        table.add_column(title, justify="left" if title in left else "right", overflow="fold")
    for row in rows(data):
        table.add_row(*(str(cell) for cell in row))
    console(file_columns=_FILE_COLUMNS).print(table)
    return 0


def is_nothing(asking: Asking, data: Any, args: argparse.Namespace) -> bool:
    """Says so of a job that is known; NotFound if it is not."""
    if data:
        return False
    asking.get("/v1/job", job=args.job)
    if not args.json:
        print(f"nothing of {args.job} in the last {args.since}; --since looks further back")
    return not args.json


def length(duration_ns: int) -> str:
    """1.23 ms, 4.5 s, 3.2 h: three digits are enough."""
    for unit, size in (("d", 86_400e9), ("h", 3600e9), ("min", 60e9), ("s", 1e9), ("ms", 1e6)):
        if duration_ns >= size:
            return f"{duration_ns / size:.3g} {unit}"
    return f"{duration_ns / 1e3:.3g} us" if duration_ns else ""


def ago(time_ns: int) -> str:
    return length(max(0, time.time_ns() - time_ns)) if time_ns else ""


def percent(ratio: float | None) -> str:
    return "" if ratio is None else f"{100 * ratio:.1f}%"
