"""Segments that a killed collector left, joined: the engine takes few big blocks far faster."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from pilotlight.store.spool import segments, sync_folder, whole_entries

_UNDER_WAY = ".joining"


def join_segments(folder: Path, most_bytes: int) -> None:
    """Never touches the oldest: some of its rows may be in the tables, under its own name.

    A kill leaves nothing twice: a segment that is still there beside the one that took it in is
    known by its bytes. A disk without room leaves them as they are.
    """
    for unfinished in folder.glob(f"*{_UNDER_WAY}"):
        unfinished.unlink(missing_ok=True)
    group: list[Path] = []
    joined = b""
    for path in segments(folder)[1:]:
        data = whole_entries(path)
        if data is not None and data and data in joined:
            group.append(path)
            continue
        if data is None or len(joined) + len(data) > most_bytes:
            _replace(group, joined)
            group, joined = ([], b"") if data is None else ([path], data)
            continue
        group.append(path)
        joined += data
    _replace(group, joined)


def _replace(group: Sequence[Path], data: bytes) -> None:
    """The first of them takes in all; the others go once it is safe."""
    if len(group) < 2:
        return
    first, *others = group
    place = first.with_suffix(_UNDER_WAY)
    try:
        with place.open("xb") as stream:
            stream.write(data)
            stream.flush()
            os.fsync(stream.fileno())
        place.replace(first)
        sync_folder(first.parent)
    except OSError:
        place.unlink(missing_ok=True)
        return
    for path in others:
        path.unlink(missing_ok=True)
    sync_folder(first.parent)
