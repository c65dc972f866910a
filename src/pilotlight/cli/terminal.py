"""Whatever reaches the terminal: names of others cannot move its cursor or pass for markup."""

from __future__ import annotations

import os
import sys
import textwrap
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

from pilotlight.printable import one_line, printable

if TYPE_CHECKING:
    from rich.console import Console

LABEL_COLUMNS = 12
_FILE_COLUMNS = 120


class PrintableStream:
    """A stream that shows control characters instead of obeying them."""

    def __init__(self, stream: TextIO) -> None:
        self.proxied = stream

    def write(self, text: str) -> int:
        self.proxied.write(printable(text))
        return len(text)

    def writelines(self, lines: Iterable[str]) -> None:
        for line in lines:
            self.write(line)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.proxied, name)


@contextmanager
def printable_streams() -> Iterator[None]:
    """Standard output and error show control characters until the end of the block."""
    before = sys.stdout, sys.stderr
    with ExitStack() as opened:
        # One that was closed when we were started is None.
        sys.stdout, sys.stderr = (
            PrintableStream(stream or opened.enter_context(Path(os.devnull).open("w")))
            for stream in before
        )
        try:
            yield
        finally:
            sys.stdout, sys.stderr = before


def leave_unsaid(stream: TextIO) -> None:
    """What the stream did not take, and all that follows, goes nowhere: it would fail again as the
    program ends, and change its exit code."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, stream.fileno())
    os.close(nowhere)


def overwrite(text: str) -> None:
    """Shows the text instead of the last line of standard error."""
    stream = _obeying(sys.stderr)
    stream.write(f"\r\x1b[K{printable(text)}")
    stream.flush()


def _obeying(stream: TextIO) -> TextIO:
    """Where sequences of our own have to go."""
    proxied: TextIO = getattr(stream, "proxied", stream)
    return proxied


def console(*, stderr: bool = False, file_columns: int = _FILE_COLUMNS) -> Console:
    """Where rich draws: no markup, no emoji, no control characters but rich's own.

    Written to a file it is `file_columns` wide.
    """
    from rich.console import Console, ConsoleOptions, RenderableType
    from rich.segment import Segment

    class PrintableConsole(Console):
        def render(
            self, renderable: RenderableType, options: ConsoleOptions | None = None
        ) -> Iterable[Segment]:
            # Plain text comes here as a cell of a table: one line.
            if isinstance(renderable, str):
                renderable = one_line(renderable)
            for segment in super().render(renderable, options):
                if segment.control:
                    yield segment
                else:
                    yield Segment(printable(segment.text), segment.style)

    # Given, not left to rich: what it draws live it would look for behind proxies of its own.
    stream = _obeying(sys.stderr if stderr else sys.stdout)
    made = PrintableConsole(file=stream, markup=False, emoji=False, highlight=False)
    if not made.is_terminal and "COLUMNS" not in os.environ:
        made.width = file_columns
    return made


def print_labelled(
    drawn: Console, label: str, text: str, *, indent: int = 3, style: str | None = None
) -> None:
    """A line with its label; what does not fit goes on below the text, not below the label."""
    begin = " " * indent + (f"{label:<{LABEL_COLUMNS}}" if label else "")
    columns = max(20, drawn.width - len(begin))
    lines = textwrap.wrap(one_line(text), columns, break_on_hyphens=False) or [""]
    for number, line in enumerate(lines):
        drawn.print((begin if not number else " " * len(begin)) + line, soft_wrap=True, style=style)
