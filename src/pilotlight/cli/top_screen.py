"""The live screen of `pilotlight top`: as many rows as fit the terminal, and keys to move them."""

from __future__ import annotations

import os
import re
import select
import sys
import termios
import time
import tty
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rich.console import Console, RenderableType

REFRESH_S = 1.0
_LEAST_ROWS = 3
_END = 1 << 30
# What each key adds to the first row, in rows and in screens of them.
_MOVES = {
    b"\x1b[A": (-1, 0), b"\x1bOA": (-1, 0), b"k": (-1, 0),
    b"\x1b[B": (1, 0), b"\x1bOB": (1, 0), b"j": (1, 0),
    b"\x1b[5~": (0, -1), b"b": (0, -1),
    b"\x1b[6~": (0, 1), b" ": (0, 1),
    b"\x1b[H": (-_END, 0), b"\x1b[1~": (-_END, 0), b"g": (-_END, 0),
    b"\x1b[F": (_END, 0), b"\x1b[4~": (_END, 0), b"G": (_END, 0),
}  # fmt: skip

_KEY = re.compile(rb"\x1b[\[O][0-9;]*[A-Za-z~]|.", re.DOTALL)
_TERMINAL_GONE = b""
_QUIT = {b"q", b"Q", _TERMINAL_GONE}

Status = dict[str, Any]
View = Callable[[Status, int, slice], "RenderableType"]


def watch(
    out: Console, ask: Callable[[], Status], view: View, count: Callable[[Status], int]
) -> None:
    """Shows `view` of a new status every second until q is pressed. `count`: its rows."""
    from rich.live import Live

    first = 0
    status = ask()
    due_s = time.monotonic() + REFRESH_S
    with _single_keys(), Live(screen=True, auto_refresh=False, console=out) as live:
        while True:
            shown, page = fitted(out, status, view, count(status), first)
            live.update(page, refresh=True)
            keys = _pressed(due_s - time.monotonic())
            if _QUIT.intersection(keys):
                return
            first = shown.start
            for rows, screens in (_MOVES.get(key, (0, 0)) for key in keys):
                first += rows + screens * (shown.stop - shown.start)
            if time.monotonic() >= due_s:
                status = ask()
                due_s = time.monotonic() + REFRESH_S


def fitted(
    out: Console, status: Status, view: View, count: int, first: int
) -> tuple[slice, RenderableType]:
    """The rows that fit the terminal, from `first` on or as near to it as there are, and the page
    with them."""
    from rich.console import Group
    from rich.text import Text

    def hint(last: int) -> Text:
        here = f"{first + 1} to {last} of {count} processes: arrows, Page Up and Down; "
        return Text(f"\n{here if last - first < count else ''}q ends this view, not the job", "dim")

    others = Group(view(status, out.width, slice(0)), hint(first + 1))
    room = max(_LEAST_ROWS, out.height - len(out.render_lines(others, pad=False)))
    first = max(0, min(first, count - room))
    shown = slice(first, min(count, first + room))
    return shown, Group(view(status, out.width, shown), hint(shown.stop))


@contextmanager
def _single_keys() -> Iterator[None]:
    before = termios.tcgetattr(sys.stdin)
    tty.setcbreak(sys.stdin)
    try:
        yield
    finally:
        termios.tcsetattr(sys.stdin, termios.TCSADRAIN, before)


def _pressed(wait_s: float) -> list[bytes]:
    """Keys, also those that are a sequence; none after the wait."""
    handle = sys.stdin.fileno()
    readable, _, _ = select.select([handle], [], [], max(0.0, wait_s))
    if not readable:
        return []
    return _KEY.findall(os.read(handle, 256)) or [_TERMINAL_GONE]
