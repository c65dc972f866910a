"""processes.jsonl: a line when a process of the job appears, another when it ends."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Final

from pilotlight.errors import FormatError
from pilotlight.recording.fields import parse_object, take, take_optional, take_or
from pilotlight.recording.source import open_source

PROCESSES_FILE: Final = "processes.jsonl"
PROCESSES_LIMIT: Final = 1 << 16
LINE_LIMIT_BYTES: Final = 1 << 16
ENDS: Final = ("exit", "died", "exec", "gone")


@dataclass(frozen=True)
class ProcessStart:
    process: int
    pid: int
    start_time: int
    segment: str
    time_ns: int
    realtime_ns: int
    abi: tuple[int, int]
    identity: Mapping[str, object] = field(default_factory=dict)

    event: str = "start"


@dataclass(frozen=True)
class ProcessEnd:
    """`how` is one of ENDS; `exit_code` is the negative number of a signal, None if not known.

    `off` is why the probe turned itself, or its sampling, off.
    """

    process: int
    how: str
    time_ns: int
    exit_code: int | None = None
    rings_quarantined: int = 0
    read: int = 0
    dropped: int = 0
    off: str = ""

    event: str = "end"


def append_event(folder: Path, event: ProcessStart | ProcessEnd) -> None:
    """Adds one line, after whatever a killed writer left of its last one."""
    line = json.dumps(asdict(event), separators=(",", ":")).encode() + b"\n"
    with (folder / PROCESSES_FILE).open("ab+") as stream:
        if stream.tell():
            stream.seek(-1, os.SEEK_END)
            line = line if stream.read(1) == b"\n" else b"\n" + line
        stream.write(line)


@dataclass(frozen=True)
class Process:
    """A process of the job; `end` is None while nobody saw it end."""

    start: ProcessStart
    end: ProcessEnd | None

    @property
    def rank(self) -> int | None:
        rank = self.start.identity.get("rank")
        return rank if type(rank) is int else None

    @property
    def command(self) -> str:
        command = self.start.identity.get("command")
        if isinstance(command, list):
            return " ".join(str(word) for word in command)
        return command if isinstance(command, str) else ""


def read_processes(folder: Path) -> tuple[tuple[Process, ...], list[str]]:
    """The processes by index, and what could not be read of them; none before the first appears."""
    path = folder / PROCESSES_FILE
    starts: dict[int, ProcessStart] = {}
    ends: dict[int, ProcessEnd] = {}
    warnings = []
    try:
        stream = open_source(path)
    except FileNotFoundError:
        return (), []
    with stream:
        for number in range(1, 2 * PROCESSES_LIMIT + 1):
            line = stream.readline(LINE_LIMIT_BYTES)
            if not line:
                break
            place = f"{PROCESSES_FILE}: line {number}"
            if not line.endswith(b"\n"):
                warnings.append(f"{place}: cut")
                continue
            try:
                event = _event(parse_object(line, place))
            except FormatError as error:
                message = str(error)
                warnings.append(message if message.startswith(place) else f"{place}: {message}")
                continue
            if isinstance(event, ProcessStart):
                starts[event.process] = event
            else:
                ends[event.process] = event
        else:
            warnings.append(f"{PROCESSES_FILE}: more than {PROCESSES_LIMIT} processes")
    processes = (Process(starts[index], ends.get(index)) for index in sorted(starts))
    return tuple(processes), warnings


def _event(content: Mapping[str, object]) -> ProcessStart | ProcessEnd:
    kind = take(content, "event", str)
    process = take(content, "process", int)
    if not 0 <= process < 1 << 32:
        raise FormatError(f"process is {process}")
    if kind == "end":
        how = take(content, "how", str)
        if how not in ENDS:
            raise FormatError(f"how is {how!r:.40}")
        return ProcessEnd(
            process=process,
            how=how,
            time_ns=take(content, "time_ns", int),
            exit_code=take_optional(content, "exit_code", int),
            rings_quarantined=take_or(content, "rings_quarantined", 0),
            read=take_or(content, "read", 0),
            dropped=take_or(content, "dropped", 0),
            off=take_or(content, "off", ""),
        )
    if kind != "start":
        raise FormatError(f"event is {kind!r:.40}")
    major, minor = _abi(take(content, "abi", list))
    return ProcessStart(
        process=process,
        pid=take(content, "pid", int),
        start_time=take(content, "start_time", int),
        segment=take(content, "segment", str),
        time_ns=take(content, "time_ns", int),
        realtime_ns=take(content, "realtime_ns", int),
        abi=(major, minor),
        identity=take_or(content, "identity", dict[str, object]()),
    )


def _abi(numbers: list[object]) -> tuple[int, int]:
    if len(numbers) < 2 or type(numbers[0]) is not int or type(numbers[1]) is not int:
        raise FormatError("abi is not two numbers")
    return numbers[0], numbers[1]
