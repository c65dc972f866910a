"""The last seconds of a recording, as a recording of its own; the recording may still grow."""

from __future__ import annotations

import contextlib
import os
import shutil
from dataclasses import dataclass, replace
from pathlib import Path

from pilotlight.errors import FormatError, PilotlightError, UsageError
from pilotlight.recording.journal import JOURNAL_FILE, read_journal
from pilotlight.recording.manifest import MANIFEST_FILE, Manifest, read_manifest, write_manifest
from pilotlight.recording.processes import PROCESSES_FILE

# The times of files are as coarse as the kernel's tick.
_TICK_NS = 20_000_000


@dataclass(frozen=True)
class Slice:
    """What was copied. `range_ns` is on CLOCK_MONOTONIC of the node."""

    chunks: int
    range_ns: tuple[int, int]


def copy_last(source: Path, target: Path, last_ns: int) -> Slice:
    """Makes `target` a recording of what `source` has of its last `last_ns`, counted from its last
    commit. Sums and processes are copied whole; the manifest says the range."""
    manifest = read_manifest(source)
    chunks = _chunks(source / "detail")
    try:
        target.mkdir(parents=True, exist_ok=True)
        if any(target.iterdir()):
            raise UsageError(f"{target}: not empty; name a new folder")
        end_ns = max((changed for changed, _ in chunks), default=_changed_ns(source, MANIFEST_FILE))
        wanted = [chunk for changed, chunk in chunks if changed >= end_ns - last_ns]
        copied = [_copy_chunk(chunk, target / "detail" / chunk.name) for chunk in wanted]
        if (source / "windows").is_dir():
            _copy_chunk(source / "windows", target / "windows")
        if (source / PROCESSES_FILE).exists():
            shutil.copy(source / PROCESSES_FILE, target)
        to_ns = _to_monotonic(manifest, end_ns) + _TICK_NS
        from_ns = max(to_ns - last_ns, _to_monotonic(manifest, manifest.created_ns))
        range_ns = (from_ns, to_ns)
        made = replace(
            manifest,
            state="finished",
            first_chunk=int(wanted[0].name) if wanted else 1,
            last_chunk=int(wanted[-1].name) if wanted else 0,
            range_ns=range_ns,
        )
        write_manifest(target, made)
    except OSError as error:
        raise PilotlightError(f"{error.filename or target}: {error.strerror}") from None
    return Slice(sum(copied), range_ns)


def is_slice(folder: Path) -> bool:
    """Whether that recording was made by `copy_last`."""
    try:
        return read_manifest(folder).range_ns is not None
    except (OSError, FormatError):
        return False


def _chunks(folder: Path) -> list[tuple[int, Path]]:
    """When each chunk was last committed, and where it is; oldest first."""
    if not folder.is_dir():
        return []
    found = sorted(entry for entry in folder.iterdir() if entry.name.isdigit())
    dated = []
    for chunk in found:
        with contextlib.suppress(OSError):
            dated.append((_changed_ns(chunk, JOURNAL_FILE), chunk))
    return dated


def _changed_ns(folder: Path, file: str) -> int:
    return (folder / file).stat().st_mtime_ns


def _to_monotonic(manifest: Manifest, realtime_ns: int) -> int:
    """By the latest pair that was there then: wall-clock time may have been stepped since."""
    earlier = [pair for pair in manifest.clocks if pair.realtime_ns <= realtime_ns]
    pair = earlier[-1] if earlier else manifest.clocks[0]
    return realtime_ns - pair.realtime_ns + pair.monotonic_ns


def _copy_chunk(source: Path, target: Path) -> bool:
    """False: the recorder dropped the chunk meanwhile."""
    target.mkdir(parents=True)
    try:
        journal = read_journal(source)
        # The journal first: what it commits is in the files by the time they are copied.
        shutil.copy(source / JOURNAL_FILE, target)
        for file in source.glob("*.arrows"):
            if journal is not None and journal.closed:
                _link(file, target / file.name)
            else:
                shutil.copy(file, target)
    except (FileNotFoundError, FormatError):
        shutil.rmtree(target)
        return False
    return True


def _link(source: Path, target: Path) -> None:
    try:
        os.link(source, target)
    except OSError:
        # Another file system, or one without links.
        shutil.copy(source, target)
