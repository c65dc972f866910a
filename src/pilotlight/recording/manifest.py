"""manifest.json: what a recording is, how far it has come and what it lost."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path

from pilotlight.errors import FormatError
from pilotlight.recording.fields import (
    check_version,
    read_object,
    take,
    take_optional,
    take_or,
    take_texts,
)
from pilotlight.recording.schema import FORMAT, VERSION

MANIFEST_FILE = "manifest.json"


@dataclass(frozen=True)
class ClockPair:
    """One instant on both clocks of the node."""

    monotonic_ns: int
    realtime_ns: int


@dataclass(frozen=True)
class Lost:
    chunks_dropped: int = 0
    rows_dropped: int = 0
    write_errors: tuple[str, ...] = ()


@dataclass(frozen=True)
class AgentFacts:
    """The agent, and what it cost since this one opened the recording.

    `restarts` are the times (monotonic) at which another one took over.

    `start_time` is field 22 of /proc/PID/stat: with the pid it names the agent's process.
    """

    pid: int
    version: str
    start_time: int = 0
    restarts: tuple[int, ...] = ()
    cpu_ns: int = 0
    wall_ns: int = 0
    rss_bytes: int = 0


@dataclass(frozen=True)
class Manifest:
    job: str
    node: str
    boot_id: str
    created_ns: int
    command: tuple[str, ...]
    agent: AgentFacts
    clocks: tuple[ClockPair, ...]
    budget_bytes: int
    state: str = "recording"
    exit_code: int | None = None
    signal: int | None = None
    detail_bytes: int = 0
    first_chunk: int = 1
    last_chunk: int = 0
    lost: Lost = field(default_factory=Lost)
    range_ns: tuple[int, int] | None = None
    """This is a part of a recording: what ended in this time (monotonic) counts."""

    def to_json(self) -> str:
        head = {"format": FORMAT, "version": VERSION}
        return json.dumps({**head, **asdict(self)}, indent=1)

    @classmethod
    def from_json(cls, content: Mapping[str, object]) -> Manifest:
        """Checks everything; FormatError says what is wrong."""
        check_version(content, FORMAT, VERSION[0])
        state = take(content, "state", str)
        if state not in ("recording", "finished"):
            raise FormatError(f"state is {state!r:.40}")
        return cls(
            job=take(content, "job", str),
            node=take(content, "node", str),
            boot_id=take(content, "boot_id", str),
            created_ns=take(content, "created_ns", int),
            command=take_texts(content, "command"),
            agent=_agent(take(content, "agent", dict)),
            clocks=_clocks(take(content, "clocks", list)),
            budget_bytes=take(content, "budget_bytes", int),
            state=state,
            exit_code=take_optional(content, "exit_code", int),
            signal=take_optional(content, "signal", int),
            detail_bytes=take_or(content, "detail_bytes", 0),
            first_chunk=take_or(content, "first_chunk", 1),
            last_chunk=take_or(content, "last_chunk", 0),
            lost=_lost(take_or(content, "lost", dict[str, object]())),
            range_ns=_range(take_optional(content, "range_ns", list)),
        )


def _range(times: list[object] | None) -> tuple[int, int] | None:
    if times is None:
        return None
    if len(times) != 2:
        raise FormatError("range_ns is not two times")
    first, last = (take({"range_ns": time}, "range_ns", int) for time in times)
    return first, last


def _agent(content: Mapping[str, object]) -> AgentFacts:
    restarts = take_or(content, "restarts", list[object]())
    return AgentFacts(
        pid=take(content, "pid", int),
        version=take(content, "version", str),
        start_time=take_or(content, "start_time", 0),
        restarts=tuple(take({"restarts": time}, "restarts", int) for time in restarts),
        cpu_ns=take_or(content, "cpu_ns", 0),
        wall_ns=take_or(content, "wall_ns", 0),
        rss_bytes=take_or(content, "rss_bytes", 0),
    )


def _clocks(pairs: list[object]) -> tuple[ClockPair, ...]:
    objects = [take({"clocks": pair}, "clocks", dict) for pair in pairs]
    if not objects:
        raise FormatError("clocks is empty")
    return tuple(
        ClockPair(take(pair, "monotonic_ns", int), take(pair, "realtime_ns", int))
        for pair in objects
    )


def _lost(content: Mapping[str, object]) -> Lost:
    return Lost(
        chunks_dropped=take_or(content, "chunks_dropped", 0),
        rows_dropped=take_or(content, "rows_dropped", 0),
        write_errors=take_texts(content, "write_errors"),
    )


def write_manifest(folder: Path, manifest: Manifest) -> None:
    """Replaces the manifest as a whole: a reader sees the old one or the new one."""
    beside = folder / f"{MANIFEST_FILE}.new"
    try:
        beside.write_text(manifest.to_json())
        beside.replace(folder / MANIFEST_FILE)
    except OSError:
        with contextlib.suppress(OSError):
            beside.unlink()
        raise


def read_manifest(folder: Path) -> Manifest:
    path = folder / MANIFEST_FILE
    try:
        content = read_object(path)
    except FileNotFoundError:
        raise FormatError(f"{folder}: not a recording, it has no {MANIFEST_FILE}") from None
    try:
        return Manifest.from_json(content)
    except FormatError as error:
        raise FormatError(f"{path}: {error}") from None
