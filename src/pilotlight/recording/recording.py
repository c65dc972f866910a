"""Reads a recording: what of it is whole, and a warning for what is not."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property
from itertools import pairwise
from pathlib import Path

import numpy as np

from pilotlight.errors import FormatError
from pilotlight.recording.chunk import ChunkReader
from pilotlight.recording.columns import Columns, group, join_batches
from pilotlight.recording.decoder import Batch
from pilotlight.recording.definitions import CallTree, Names
from pilotlight.recording.liveness import observed_state
from pilotlight.recording.manifest import Manifest, read_manifest
from pilotlight.recording.processes import (
    PROCESSES_FILE,
    Process,
    ProcessStart,
    read_processes,
)
from pilotlight.recording.schema import TABLES

CHUNKS_LIMIT = 100_000
PROCESSES_LIMIT = 4096
MAIN_THREAD = "MainThread"


class Recording:
    """Tables are read when they are first asked for; `warnings` then says what was left out."""

    def __init__(self, path: Path, manifest: Manifest, processes: tuple[Process, ...]) -> None:
        self.path = path
        self.manifest = manifest
        self.processes = processes
        self.state = observed_state(manifest, processes)
        self.warnings: list[str] = []
        self._tables: dict[tuple[str, str], Columns] = {}
        self._readers: dict[Path, ChunkReader] = {}

    @classmethod
    def open(cls, path: Path) -> Recording:
        """FormatError: this is no recording, or one of a newer version."""
        manifest = read_manifest(path)
        processes, warnings = read_processes(path)
        recording = cls(path, manifest, processes)
        recording.warnings += warnings
        return recording

    def detail(self, table: str) -> Columns:
        """A table over all chunks of full detail that are still there."""
        return self._table("detail", self.chunks, table)

    def windows(self, table: str) -> Columns:
        """A table of sums over the whole job."""
        folder = self.path / "windows"
        return self._table("windows", [folder] if folder.is_dir() else [], table)

    @cached_property
    def gaps(self) -> Columns:
        """In the windows for good, added up over 10 s, and in the detail until those are written:
        each once. Of a part of a recording those of its own time, which the detail tells."""
        kept, newest = self.windows("gaps"), self.detail("gaps")
        if self.manifest.range_ns is not None:
            return newest
        both = _stacked(kept, newest)
        keys, position = group(both["process"], both["ring"], both["reason"])
        known_ns = np.full(keys[0].size, -1, np.int64)
        np.maximum.at(known_ns, position[: kept.rows], kept["last_ns"])
        is_new = both["last_ns"] > known_ns[position]
        is_new[: kept.rows] = True
        return both.where(is_new)

    def load(self) -> None:
        """Reads everything now: `processes` and `warnings` are complete afterwards."""
        for table in TABLES:
            self.detail(table)
            self.windows(table)

    @cached_property
    def names(self) -> Names:
        return Names(self._definitions("names"))

    @cached_property
    def calls(self) -> CallTree:
        tree = CallTree(self._definitions("frames"), self._definitions("stacks"))
        if tree.strange:
            self.warnings.append(f"stacks: {tree.strange} without their callers")
        return tree

    @cached_property
    def thread_names(self) -> dict[tuple[int, int], str]:
        """By process and thread; the last name that a thread had, and MAIN_THREAD for the first."""
        table = self._definitions("threads")
        texts = self.names.texts
        numbers = self.names.find(table["process"], table["name"])
        keys = zip(table["process"].tolist(), table["thread"].tolist(), strict=True)
        named = zip(keys, numbers.tolist(), strict=True)
        names = {key: texts[number] for key, number in named if number}
        return names | dict.fromkeys(self.main_threads.items(), MAIN_THREAD)

    @cached_property
    def main_threads(self) -> dict[int, int]:
        """The thread of each process that has its pid, or else the one that takes the steps.

        In a container the agent may know a process by another pid than its threads do.
        """
        found = {}
        threads = self._definitions("threads")
        steps = _stacked(self.windows("steps"), self.detail("steps"))
        for process in self.processes:
            index, pid = process.start.process, process.start.pid
            mine = threads["thread"][threads["process"] == index]
            stepping = steps["thread"][steps["process"] == index]
            if (mine == pid).any():
                found[index] = pid
            elif stepping.size:
                found[index] = int(stepping[-1])
        return found

    @cached_property
    def chunks(self) -> tuple[Path, ...]:
        """The folders of full detail that are still there, oldest first."""
        try:
            found = [folder for folder in (self.path / "detail").iterdir() if _is_number(folder)]
        except FileNotFoundError:
            return ()
        if len(found) > CHUNKS_LIMIT:
            raise FormatError(f"{self.path / 'detail'}: more than {CHUNKS_LIMIT} chunks")
        ordered = sorted(found, key=lambda folder: int(folder.name))
        for before, after in pairwise(ordered):
            if int(after.name) != int(before.name) + 1:
                self.warnings.append(f"detail: chunks between {before.name} and {after.name} miss")
        return tuple(ordered)

    def _definitions(self, table: str) -> Columns:
        return _stacked(self.windows(table), self.detail(table))

    def _table(self, level: str, folders: Sequence[Path], table: str) -> Columns:
        key = (level, table)
        if key not in self._tables:
            columns, warnings = join_batches(TABLES[table], self._batches(folders, table))
            self.warnings += [f"{level}: {warning}" for warning in warnings]
            self._tables[key] = self._described(level, table, self._in_range(columns))
        return self._tables[key]

    def _batches(self, folders: Sequence[Path], table: str) -> Iterator[Batch]:
        for folder in folders:
            if folder not in self._readers:
                self._readers[folder] = ChunkReader(folder)
                self.warnings += self._readers[folder].warnings
            reader = self._readers[folder]
            known = len(reader.warnings)
            yield from reader.read(table)
            if folder.exists():
                self.warnings += reader.warnings[known:]
            else:
                self.warnings.append(f"{folder.name}: dropped by the recorder while being read")

    def _in_range(self, columns: Columns) -> Columns:
        """Of a part of a recording: what ended in its time; a window counts if it began there."""
        if self.manifest.range_ns is None:
            return columns
        first_ns, last_ns = self.manifest.range_ns
        for name in ("time_ns", "last_ns", "start_ns"):
            if name in columns.arrays:
                ended = columns[name]
                if "duration_ns" in columns.arrays:
                    ended = ended + columns["duration_ns"]
                return columns.where((ended >= first_ns) & (ended <= last_ns))
        return columns

    def _described(self, level: str, table: str, columns: Columns) -> Columns:
        """Rows of processes that nobody described get a process without a name."""
        if "process" not in columns.arrays:
            return columns
        known = {process.start.process for process in self.processes}
        found = np.unique(columns["process"]).tolist()
        unknown = [index for index in found if index not in known]
        if not unknown:
            return columns
        added = unknown[: max(0, PROCESSES_LIMIT - len(known))]
        self.warnings += [f"process {index}: not in {PROCESSES_FILE}" for index in added[:10]]
        nameless = (Process(ProcessStart(index, 0, 0, "", 0, 0, (0, 0)), None) for index in added)
        self.processes = tuple(
            sorted((*self.processes, *nameless), key=lambda process: process.start.process)
        )
        if len(added) == len(unknown):
            return columns
        chosen = np.isin(columns["process"], np.array([*known, *added], np.uint32))
        left_out = columns.rows - int(np.count_nonzero(chosen))
        self.warnings.append(f"{level}: {table}: {left_out} rows of too many processes left out")
        return columns.where(chosen)


def _is_number(folder: Path) -> bool:
    return folder.name.isascii() and folder.name.isdigit() and len(folder.name) <= 12


def _stacked(first: Columns, second: Columns) -> Columns:
    return Columns(
        first.rows + second.rows,
        {name: np.concatenate([first[name], second[name]]) for name in first.arrays},
        {name: first.texts[name] + second.texts[name] for name in first.texts},
    )
