"""Folded stacks: a line for each stack with its microseconds, for flamegraph.pl and the like."""

from __future__ import annotations

from collections import Counter
from typing import BinaryIO

from pilotlight.export.stacks import process_label, stack_sums, thread_label
from pilotlight.recording.recording import Recording


def write_folded(recording: Recording, out: BinaryIO) -> None:
    lines: Counter[str] = Counter()
    paths: dict[int, str] = {}
    for row in stack_sums(recording):
        if row.node not in paths:
            functions = (frame.function for frame in recording.calls.path(row.node))
            paths[row.node] = "".join(f";{_name(function)}" for function in functions)
        process = _name(process_label(recording, row.process))
        thread = _name(thread_label(recording, row.process, row.thread))
        lines[f"{process};{thread}{paths[row.node]}"] += row.weight_ns
    for stack, weight_ns in sorted(lines.items()):
        out.write(f"{stack} {weight_ns // 1000}\n".encode(errors="replace"))


def _name(text: str) -> str:
    """The format has no escapes: what would end a frame or a line becomes something else."""
    return " ".join(text.replace(";", ":").split()) or "(nameless)"
