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

TILES_LIMIT_BYTES = 5 << 20
FLAMES_LIMIT_BYTES = 2 << 20


def trace_page(opened: OpenTrace) -> str:
    tables, levels = _tiles(opened)
    tables.update(_flames(opened))
    answer = msgspec.structs.replace(opened.answer, levels=levels)
    path = f"traces/{opened.identity}"
    inlined: dict[str, Any] = {path: answer}
    try:
        inlined[f"{path}/roofline"] = opened.roofline(None, None)
    except PilotlightError as error:
        inlined[f"{path}/roofline"] = answers.Roofline("", 0.0, 0.0, [], [], str(error))
    title = f"{opened.title} · pilotlight"
    return one_file(title, f"#/trace/{opened.identity}", inlined, tables, __version__)


def _tiles(opened: OpenTrace) -> tuple[dict[str, bytes], int]:
    """Whole levels of all ranks while they fit; the first is always there."""
    ranks = [trace.rank for trace in opened.analysis.job.traces]
    tables: dict[str, bytes] = {}
    used = 0
    for level in range(opened.extent.levels):
        added: dict[str, bytes] = {}
        for rank in ranks:
            for index in range(1 << level):
                key = f"traces/{opened.identity}/tiles/{rank}/{level}/{index}"
                added[key] = opened.tile(rank, level, index)
                used += len(added[key])
                if level and used > TILES_LIMIT_BYTES:
                    return tables, level
        tables.update(added)
    return tables, opened.extent.levels


def _flames(opened: OpenTrace) -> Mapping[str, bytes]:
    tables: dict[str, bytes] = {}
    used = 0
    for trace in opened.analysis.job.traces:
        length_ns = opened.extent.length_ns
        table = opened.icicle(trace.rank, 0, length_ns).to_stream()
        used += len(table)
        if tables and used > FLAMES_LIMIT_BYTES:
            break
        key = f"traces/{opened.identity}/flame?rank={trace.rank}&from=0&to={length_ns}"
        tables[key] = table
    return tables
