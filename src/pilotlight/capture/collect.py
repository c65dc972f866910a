"""Brings the files of a capture from the staging folder into the folder of the person who asked."""

from __future__ import annotations

import gzip
import json
import os
import shutil
import stat
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from pilotlight.capture.request import DONE, Answered
from pilotlight.capture.target import KINETO
from pilotlight.errors import UsageError

_PIECE_BYTES = 1 << 20
# Fast: a trace shrinks to a tenth at the lowest level already.
_LEVEL = 1


@dataclass(frozen=True)
class Collected:
    """`file` is relative to the folder; None with the problem that kept it out."""

    answered: Answered
    file: str | None
    problem: str | None


def prepare(folder: Path) -> None:
    """UsageError: the folder cannot be used."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        if any(folder.iterdir()):
            raise UsageError(f"{folder}: not empty; name a new folder")
    except OSError as error:
        raise UsageError(f"{folder}: {error.strerror}") from None


def collect(
    answers: Sequence[Answered], folder: Path, progress: Callable[[str], None]
) -> list[Collected]:
    """What cannot be brought stays where it is, and its problem says so."""
    titles = [f"rank{a.rank}" if a.rank is not None else f"pid{a.pid}" for a in answers]
    done = [title for a, title in zip(answers, titles, strict=True) if a.state == DONE]
    collected = []
    for answered, title in zip(answers, titles, strict=True):
        progress(f"collecting {title}")
        named = title if done.count(title) < 2 else f"{title}-{answered.pid}"
        collected.append(_collect(answered, folder, named))
    return collected


def _collect(answered: Answered, folder: Path, title: str) -> Collected:
    problems = []
    for source in (answered.stacks, answered.flight_recorder):
        if source is not None:
            try:
                _bring(Path(source), folder / _folder_of(source) / Path(source).name)
            except OSError as error:
                problems.append(_problem(source, error))
    file = None
    if answered.state == DONE and answered.file is not None:
        name = f"{title}.json.gz" if answered.how == KINETO else f"{title}.xplane.pb"
        try:
            if answered.how == KINETO:
                _bring_trace(Path(answered.file), folder / name, answered)
            else:
                _bring(Path(answered.file), folder / name)
            file = name
        except OSError as error:
            problems.append(_problem(answered.file, error))
    return Collected(answered, file, "; ".join(problems) or None)


def _folder_of(source: str) -> str:
    return "stacks" if source.endswith(".json") else "flight_recorder"


def _problem(source: str, error: OSError) -> str:
    return f"{error.filename or source}: {error.strerror}; the file is still at {source}"


def _bring(source: Path, target: Path) -> None:
    target.parent.mkdir(exist_ok=True)
    with _open(source) as reading:
        try:
            with target.open("wb") as writing:
                shutil.copyfileobj(reading, writing, _PIECE_BYTES)
        except OSError:
            target.unlink(missing_ok=True)
            raise


def _bring_trace(source: Path, target: Path, answered: Answered) -> None:
    """Says in the trace whose it is: Kineto leaves that out of traces on demand."""
    with _open(source) as reading:
        try:
            with gzip.open(target, "wb", compresslevel=_LEVEL) as writing:
                head = reading.read(_PIECE_BYTES)
                before, brace, after = head.partition(b"{")
                writing.write(before + brace + _facts(answered) + after if brace else head)
                shutil.copyfileobj(reading, writing, _PIECE_BYTES)
        except OSError:
            target.unlink(missing_ok=True)
            raise


def _facts(answered: Answered) -> bytes:
    if answered.rank is None:
        return b""
    facts = {"rank": answered.rank, "world_size": answered.world_size, "pid": answered.pid}
    return f'"distributedInfo": {json.dumps(facts)},'.encode()


def _open(source: Path) -> BinaryIO:
    """A plain file and no link: the folder belongs to the job's user, who may not be ours."""
    descriptor = os.open(source, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK)
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise OSError(0, "not a plain file", str(source))
    return os.fdopen(descriptor, "rb")
