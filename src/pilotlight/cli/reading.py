"""Reading traces on the command line: how much memory they may take, and a bar if it takes long."""

from __future__ import annotations

import argparse
import os
import re
import sys
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from pilotlight.cli.terminal import console

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID

QUIET_S = 2.0
_UNITS = {"": 0, "K": 10, "M": 20, "G": 30, "T": 40}


def add_memory(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--memory",
        type=size_bytes,
        metavar="SIZE",
        help="what traces, and what is derived from them, may take: more goes to files in TMPDIR"
        " (default: half of what is free), such as 500M or 4G",
    )


def size_bytes(text: str) -> int:
    match = re.fullmatch(r"(\d{1,12}(?:\.\d{1,3})?)([KMGT]?)(?:i?B)?", text.strip(), re.IGNORECASE)
    if match is None:
        raise argparse.ArgumentTypeError(f"{text!r} is no size: 500M, 4G")
    return int(float(match.group(1)) * (1 << _UNITS[match.group(2).upper()]))


class ReadingBar:
    """A bar on the terminal, once reading has taken two seconds; gone at the end."""

    def __init__(self, paths: Sequence[Path], *, quiet: bool) -> None:
        self._paths = paths
        self._shown = sys.stderr.isatty() and not quiet
        self._begin = time.monotonic()
        self._read_bytes = 0
        self._bar: Progress | None = None
        self._task: TaskID | None = None
        self._lock = threading.Lock()

    def __enter__(self) -> ReadingBar:
        return self

    def __exit__(self, *_: object) -> None:
        if self._bar is not None:
            self._bar.stop()

    def advance(self, count_bytes: int) -> None:
        """More of the files was read. Any thread may say so."""
        if not self._shown:
            return
        with self._lock:
            self._read_bytes += count_bytes
            if self._bar is None and time.monotonic() - self._begin > QUIET_S:
                self._start()
            if self._bar is not None and self._task is not None:
                self._bar.update(self._task, completed=self._read_bytes)

    def _start(self) -> None:
        from rich.progress import BarColumn, DownloadColumn, Progress, TimeRemainingColumn

        columns = ("reading", BarColumn(), DownloadColumn(), TimeRemainingColumn())
        self._bar = Progress(*columns, console=console(stderr=True), transient=True)
        self._task = self._bar.add_task("", total=_total_bytes(self._paths) or None)
        self._bar.start()


def _total_bytes(paths: Sequence[Path]) -> int:
    total = 0
    for path in paths:
        if path.is_dir():
            for root, _, names in os.walk(path):
                total += sum(_file_bytes(Path(root, name)) for name in names)
        else:
            total += _file_bytes(path)
    return total


def _file_bytes(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return 0
