"""Adds up the rows of windows, histograms and gaps that came in several pieces."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from pilotlight.agent.tables import Columns, Tables, numbers, packed
from pilotlight.recording.schema import TABLES

_SUMS = ("windows", "histograms", "gaps")


def merge_sums(parts: Sequence[Tables]) -> list[Tables]:
    """One row a key in these tables; other tables stay as they are."""
    others = [
        rest
        for part in parts
        if (rest := {name: table for name, table in part.items() if name not in _SUMS})
    ]
    merged: Tables = {}
    windows = [part["windows"][1] for part in parts if "windows" in part]
    histograms = [part["histograms"][1] for part in parts if "histograms" in part]
    gaps = [part["gaps"][1] for part in parts if "gaps" in part]
    if windows:
        merged["windows"] = _windows(windows)
    if histograms:
        merged["histograms"] = _histograms(histograms)
    if gaps:
        merged["gaps"] = _gaps(gaps)
    return [*others, merged] if merged else others


# As the reader does: times are what a process says, and may be anything.
_MOST_NS = (1 << 63) - 1


def _windows(pieces: Sequence[Columns]) -> tuple[int, Columns]:
    sums: dict[tuple[int, ...], tuple[int, int, int, int]] = {}
    for piece in pieces:
        for *key_values, count, total_ns, min_ns, max_ns in _rows("windows", piece):
            key = tuple(key_values)
            row = (count, total_ns, min_ns, max_ns)
            before = sums.get(key)
            if before is not None:
                row = (
                    before[0] + count,
                    min(before[1] + total_ns, _MOST_NS),
                    min(before[2], min_ns),
                    max(before[3], max_ns),
                )
            sums[key] = row
    return packed("windows", [(*key, *row) for key, row in sums.items()])


def _histograms(pieces: Sequence[Columns]) -> tuple[int, Columns]:
    counts: dict[tuple[int, ...], int] = {}
    for piece in pieces:
        for *key_values, count in _rows("histograms", piece):
            key = tuple(key_values)
            counts[key] = counts.get(key, 0) + count
    return packed("histograms", [(*key, count) for key, count in counts.items()])


def _gaps(pieces: Sequence[Columns]) -> tuple[int, Columns]:
    sums: dict[tuple[int, ...], tuple[int, int, int]] = {}
    for piece in pieces:
        for *key_values, first_ns, last_ns, count in _rows("gaps", piece):
            key = tuple(key_values)
            before = sums.get(key, (first_ns, last_ns, 0))
            sums[key] = (min(before[0], first_ns), max(before[1], last_ns), before[2] + count)
    return packed("gaps", [(*key, *row) for key, row in sums.items()])


def _rows(table: str, columns: Columns) -> Iterable[tuple[int, ...]]:
    values = [numbers(c.kind, columns[c.name]) for c in TABLES[table].columns]
    return zip(*values, strict=True)
