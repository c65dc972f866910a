"""Makes recordings for tests with the real writer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from pilotlight.recording.chunk import ChunkWriter
from pilotlight.recording.manifest import AgentFacts, ClockPair, Manifest, write_manifest
from pilotlight.recording.processes import ProcessEnd, ProcessStart, append_event
from pilotlight.recording.rows import Value, pack_rows

Rows = Sequence[Sequence[Value]]

MANIFEST = Manifest(
    job="example",
    node="node-1",
    boot_id="0f" * 16,
    created_ns=1_789_000_000_000_000_000,
    command=("python", "train.py"),
    agent=AgentFacts(pid=1, version="0.1.0", cpu_ns=30_000_000, wall_ns=10_000_000_000),
    clocks=(ClockPair(1_000, 1_789_000_000_000_001_000),),
    budget_bytes=1 << 28,
    state="finished",
    exit_code=0,
)


@dataclass
class Process:
    """One process of an example; ids are handed out as the probe does."""

    index: int
    tables: dict[str, list[Sequence[Value]]] = field(default_factory=dict)
    _names: dict[str, int] = field(default_factory=dict)
    _frames: dict[tuple[str, str, int], int] = field(default_factory=dict)
    _stacks: dict[tuple[int, int], int] = field(default_factory=dict)

    def add(self, table: str, *values: Value) -> None:
        self.tables.setdefault(table, []).append((self.index, *values))

    def name(self, text: str) -> int:
        if text not in self._names:
            self._names[text] = 8 * (len(self._names) + 1)
            self.add("names", self._names[text], text)
        return self._names[text]

    def frame(self, function: str, file: str, line: int) -> int:
        key = (function, file, line)
        if key not in self._frames:
            self._frames[key] = 8 * (len(self._frames) + 1)
            self.add("frames", self._frames[key], function, file, line, 1)
        return self._frames[key]

    def stack(self, *functions: str, file: str = "train.py", line: int = 10) -> int:
        """The stack of these functions, outermost first."""
        stack = 0
        for function in functions:
            stack = self.call(stack, function, file, line)
        return stack

    def call(self, caller: int, function: str, file: str, line: int = 10) -> int:
        """The stack of a function called from another stack."""
        key = (caller, self.frame(function, file, line))
        if key not in self._stacks:
            self._stacks[key] = 8 * (len(self._stacks) + 1)
            self.add("stacks", self._stacks[key], *key)
        return self._stacks[key]


def write_chunk(folder: Path, *commits: Mapping[str, Rows]) -> None:
    """A closed chunk with one commit for each mapping of tables to rows."""
    writer = ChunkWriter(folder)
    for number, tables in enumerate(commits):
        for table, rows in tables.items():
            writer.append(table, len(rows), pack_rows(table, rows))
        writer.commit({"segment": {"read": number}})
    writer.close()


def write_head(folder: Path, ranks: int = 1, ended: str = "exit", **changes: object) -> None:
    """The manifest and the processes of an example."""
    folder.mkdir(parents=True, exist_ok=True)
    write_manifest(folder, replace(MANIFEST, **changes))  # type: ignore[arg-type]
    for rank in range(ranks):
        identity = {"job": "example", "rank": rank, "command": ["python", "train.py"]}
        start = ProcessStart(rank, 100 + rank, 5, f"{rank:032x}", 1_000, 2_000, (1, 0), identity)
        append_event(folder, start)
        append_event(folder, ProcessEnd(rank, ended, 90_000_000_000, read=10))


def write_example(folder: Path, *processes: Process, ended: str = "exit") -> Path:
    """A finished recording with everything in one chunk of detail."""
    write_head(folder, ranks=len(processes), ended=ended, last_chunk=1)
    tables: dict[str, list[Sequence[Value]]] = {}
    for process in processes:
        for table, rows in process.tables.items():
            tables.setdefault(table, []).extend(rows)
    write_chunk(folder / "detail" / "000001", tables)
    return folder
