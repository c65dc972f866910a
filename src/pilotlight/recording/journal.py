"""The commit journal of a chunk: which bytes of its files count, and where the rings stood."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from pilotlight.errors import FormatError
from pilotlight.recording.schema import TABLES
from pilotlight.recording.source import open_source

JOURNAL_FILE = "commit.jsonl"
LINE_LIMIT_BYTES = 1 << 20
LINES_LIMIT = 1 << 20

_FILES = frozenset(table.file for table in TABLES.values())


@dataclass
class Journal:
    """All whole lines of a journal, merged.

    `boundaries` are the committed lengths of each file in the order of the commits: between two of
    them lie whole messages. `problem` is the first line that makes no sense: it is left out.
    """

    boundaries: dict[str, list[int]] = field(default_factory=dict)
    positions: dict[str, object] = field(default_factory=dict)
    closed: bool = False
    length_bytes: int = 0
    problem: str | None = None

    def lengths(self) -> dict[str, int]:
        return {file: ends[-1] for file, ends in self.boundaries.items()}


def commit_line(lengths: Mapping[str, int], positions: Mapping[str, object]) -> bytes:
    """Names only what changed since the line before."""
    return _line({"lengths": lengths, "positions": positions})


def close_line(lengths: Mapping[str, int]) -> bytes:
    return _line({"lengths": lengths, "closed": True})


def _line(content: Mapping[str, object]) -> bytes:
    line = json.dumps(content, separators=(",", ":")).encode() + b"\n"
    if len(line) > LINE_LIMIT_BYTES:
        raise ValueError(f"a journal line of {len(line)} bytes is more than a reader takes")
    return line


def read_journal(folder: Path) -> Journal | None:
    """None: this chunk has no journal."""
    journal = Journal()
    try:
        stream = open_source(folder / JOURNAL_FILE)
    except FileNotFoundError:
        return None
    with stream:
        for number in range(1, LINES_LIMIT + 1):
            line = stream.readline(LINE_LIMIT_BYTES + 1)
            if not line.endswith(b"\n"):
                if len(line) > LINE_LIMIT_BYTES:
                    journal.problem = f"line {number}: longer than {LINE_LIMIT_BYTES} bytes"
                return journal
            try:
                _merge(journal, line)
            except FormatError as error:
                journal.problem = journal.problem or f"line {number}: {error}"
            journal.length_bytes += len(line)
        journal.problem = f"line {LINES_LIMIT}: too many lines"
    return journal


def _merge(journal: Journal, line: bytes) -> None:
    try:
        content = json.loads(line)
    except (ValueError, RecursionError):
        raise FormatError("not JSON") from None
    if not isinstance(content, dict):
        raise FormatError("not a JSON object")
    lengths = content.get("lengths", {})
    positions = content.get("positions", {})
    if not isinstance(lengths, dict) or not isinstance(positions, dict):
        raise FormatError("lengths or positions is not a JSON object")
    for file, length in lengths.items():
        before = journal.boundaries.get(file, [0])[-1]
        if type(length) is not int or length < before:
            raise FormatError(f"{file} does not grow")
    for file, length in lengths.items():
        if file in _FILES:
            journal.boundaries.setdefault(file, []).append(length)
    journal.positions.update(positions)
    journal.closed = journal.closed or content.get("closed") is True
