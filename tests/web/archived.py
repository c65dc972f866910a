"""What the agent of one node sends of its flight recorder."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from example import Process, write_example

from pilotlight.agent.bringing import pack

MS = 1_000_000


def brought(folder: Path, rank: int, besides: Mapping[str, bytes] | None = None) -> Path:
    """`besides`: more files, by their names."""
    process = Process(0)
    for number in range(6):
        process.add("steps", 100, number, (number + 1) * 100 * MS, 50 * MS)
        process.add("spans", 100, process.name("forward"), 1, 0, (number + 1) * 100 * MS, 20 * MS)
    folder.mkdir()
    recording = write_example(folder / f"capture-{rank}", process)
    for name, content in (besides or {}).items():
        (recording / name).parent.mkdir(exist_ok=True)
        (recording / name).write_bytes(content)
    archive = folder / f"node{rank}.tar.zst"
    pack(recording, archive)
    return archive
