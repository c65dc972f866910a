"""capture.json: what a capture folder holds, of whom, and why something is missing."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

from pilotlight.capture.request import Answered
from pilotlight.errors import FormatError
from pilotlight.recording.fields import (
    check_version,
    read_object,
    take,
    take_optional,
    take_or,
    take_texts,
)

MANIFEST_FILE = "capture.json"
FORMAT = "pilotlight-capture"
VERSION = (1, 0)
_MOST_PROCESSES = 100_000

SAME = {
    True: "the same steps on all ranks",
    False: "NOT the same steps on all ranks",
    None: "which steps they are is not known",
}
"""In words: `CaptureManifest.same_steps`."""


@dataclass(frozen=True)
class Step:
    number: int
    start_ns: int
    duration_ns: int


@dataclass(frozen=True)
class Captured:
    """One process; `file` is relative to the folder, all times are on the wall clock.

    `offset_ns` is what has to be added to the times in the file to get there.
    """

    answered: Answered
    node: str
    file: str | None
    offset_ns: int = 0
    window_ns: tuple[int, int] | None = None
    spans: int = 0
    steps: tuple[Step, ...] = ()
    has_allocations: bool = False


@dataclass(frozen=True)
class CaptureManifest:
    job: str
    created_ns: int
    request: Mapping[str, object]
    first_step: int | None
    processes: tuple[Captured, ...]
    skew_ns: int | None = None
    """How far apart the ranks began, on the wall clock."""
    same_steps: bool | None = None
    """Whether all ranks have the same step numbers; None if none are known."""
    problems: tuple[str, ...] = ()

    def to_json(self) -> str:
        head = {"format": FORMAT, "version": VERSION}
        return json.dumps({**head, **asdict(self)}, indent=1)

    @classmethod
    def from_json(cls, content: Mapping[str, object]) -> CaptureManifest:
        """Checks everything; FormatError says what is wrong."""
        check_version(content, FORMAT, VERSION[0])
        processes = take(content, "processes", list)
        if len(processes) > _MOST_PROCESSES:
            raise FormatError(f"more than {_MOST_PROCESSES} processes")
        return cls(
            job=take(content, "job", str),
            created_ns=take(content, "created_ns", int),
            request=take(content, "request", dict),
            first_step=take_optional(content, "first_step", int),
            processes=tuple(_captured(take({"p": p}, "p", dict)) for p in processes),
            skew_ns=take_optional(content, "skew_ns", int),
            same_steps=take_optional(content, "same_steps", bool),
            problems=take_texts(content, "problems"),
        )


def is_capture(folder: Path) -> bool:
    return (folder / MANIFEST_FILE).is_file()


def write_capture(folder: Path, manifest: CaptureManifest) -> None:
    """As a whole: a reader sees the old one or the new one."""
    beside = folder / f"{MANIFEST_FILE}.new"
    beside.write_text(manifest.to_json())
    beside.replace(folder / MANIFEST_FILE)


def read_capture(folder: Path) -> CaptureManifest:
    path = folder / MANIFEST_FILE
    try:
        return CaptureManifest.from_json(read_object(path))
    except FileNotFoundError:
        raise FormatError(f"{folder}: not a capture, it has no {MANIFEST_FILE}") from None
    except FormatError as error:
        raise FormatError(f"{path}: {error}") from None


def _captured(content: Mapping[str, object]) -> Captured:
    file = take_optional(content, "file", str)
    if file is not None and (Path(file).is_absolute() or ".." in Path(file).parts):
        raise FormatError(f"file {file[:80]!r} is not inside the folder")
    window = take_optional(content, "window_ns", list)
    if window is not None and len(window) != 2:
        raise FormatError("window_ns is not two times")
    times = [take({"window_ns": time}, "window_ns", int) for time in window or ()]
    steps = [take({"s": step}, "s", dict) for step in take_or(content, "steps", list[object]())]
    return Captured(
        answered=Answered.from_json(take(content, "answered", dict)),
        node=take(content, "node", str),
        file=file,
        offset_ns=take_or(content, "offset_ns", 0),
        window_ns=(times[0], times[1]) if times else None,
        spans=take_or(content, "spans", 0),
        steps=tuple(
            Step(
                take(step, "number", int),
                take(step, "start_ns", int),
                take(step, "duration_ns", int),
            )
            for step in steps
        ),
        has_allocations=take_or(content, "has_allocations", False),
    )
