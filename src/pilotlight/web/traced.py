"""A trace as one file: as many levels of detail as fit."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from pilotlight import __version__
from pilotlight.errors import PilotlightError
from pilotlight.web import answers
from pilotlight.web.onefile import one_file
from pilotlight.web.opened import OpenTrace
from pilotlight.web.tiles import BINS

TILES_LIMIT_BYTES = 5 << 20
FLAMES_LIMIT_BYTES = 2 << 20


def trace_page(opened: OpenTrace) -> str:
    tables, levels, merged_ns = _tiles(opened)
    tables.update(_flames(opened))
    answer = msgspec.structs.replace(opened.answer, levels=levels, merged_ns=merged_ns)
    path = f"traces/{opened.identity}"
    inlined: dict[str, Any] = {path: answer}
    try:
        inlined[f"{path}/roofline"] = opened.roofline(None, None)
    except PilotlightError as error:
        inlined[f"{path}/roofline"] = answers.Roofline("", 0.0, 0.0, [], [], str(error))
    title = f"{opened.title} · pilotlight"
    return one_file(title, f"#/trace/{opened.identity}", inlined, tables, __version__)


def _tiles(opened: OpenTrace) -> tuple[dict[str, bytes], int, float]:
    """Of all ranks, level by level while they fit; the first is always there, of the others those
    tiles that show more than the one that they are a half of. With how many levels there are, and
    below which length spans are merged on the last."""
    wanted = {trace.rank: [0] for trace in opened.analysis.job.traces}
    tables: dict[str, bytes] = {}
    used = 0
    for level in range(opened.extent.levels):
        added: dict[str, bytes] = {}
        for rank, indices in wanted.items():
            for index in indices:
                key = f"traces/{opened.identity}/tiles/{rank}/{level}/{index}"
                added[key] = opened.tile(rank, level, index)
                used += len(added[key])
                if level and used > TILES_LIMIT_BYTES:
                    return tables, level, opened.extent.length_ns / (1 << (level - 1)) / BINS
        tables.update(added)
        wanted = {
            rank: [
                half for index in opened.merging(rank, level) for half in (2 * index, 2 * index + 1)
            ]
            for rank in wanted
        }
        if not any(wanted.values()):
            return tables, level + 1, 0.0
    return tables, opened.extent.levels, 0.0


def _flames(opened: OpenTrace) -> Mapping[str, bytes]:
    """Of all time, while they fit; those first that findings are about, in their order."""
    tables: dict[str, bytes] = {}
    used = 0
    named = [finding.rank for finding in opened.analysis.diagnosis.findings]
    places = {rank: place for place, rank in reversed([*enumerate(named)])}
    for trace in sorted(opened.analysis.job.traces, key=lambda t: places.get(t.rank, len(named))):
        length_ns = opened.extent.length_ns
        table = opened.icicle(trace.rank, 0, length_ns).to_stream()
        used += len(table)
        if tables and used > FLAMES_LIMIT_BYTES:
            break
        key = f"traces/{opened.identity}/flame?rank={trace.rank}&from=0&to={length_ns}"
        tables[key] = table
    return tables
