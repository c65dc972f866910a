"""What pilotlight does inside the user's process. Every call is cheap and safe at any time."""

from collections.abc import Mapping
from typing import TypedDict, TypeVar

_R = TypeVar("_R", bound="Range")

class Status(TypedDict):
    started: bool
    collecting: bool
    agent_pid: int
    refused: int
    period_ns: int
    off: str | None

class Range:
    """A named range as a context manager; may be nested, re-entered and shared by threads."""

    def __new__(cls: type[_R], name: str, kind: int = 1, /) -> _R:
        """`kind` is one of recording.schema.SpanKind."""
    def __enter__(self: _R) -> _R: ...
    def __exit__(self, *exception: object) -> bool: ...
    @property
    def name(self) -> str: ...

def start(socket: str, identity: bytes, period_ns: int, folder: str | None) -> str | None:
    """Starts the probe; None, or in one line why not."""

def stop(exception: str | None) -> None: ...
def turn_off(reason: str) -> None: ...
def set_identity(identity: bytes) -> None: ...
def status() -> Status: ...
def event(a: int, b: int) -> None: ...
def counter(name: str, value: float) -> None: ...
def mark(name: str, value: int) -> None: ...
def ticks() -> int:
    """Now, on the clock of records; 0 while the probe is off."""

def collective(
    op: str,
    group: str,
    sequence: int,
    bytes: int,
    dtype: str,
    rank: int,
    world: int,
    start_ticks: int,
    end_ticks: int,
    wait_ticks: int,
    flags: int,
    /,
) -> None:
    """A collective that is over; flags are recording.schema.CollectiveFlag."""

def step(number: int | None = None) -> None: ...
def name_thread(tid: int, name: str) -> None: ...
def gc_callback(phase: str, info: Mapping[str, int]) -> None: ...
