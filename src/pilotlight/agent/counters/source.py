"""The one interface between the agent and whatever has counters."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol


class Counter(NamedTuple):
    """What is measured: `device` is host, gpu0, nvme0n1, ...; `unit` is for people."""

    device: str
    name: str
    unit: str


class Event(NamedTuple):
    """Something that happened to a device, e.g. an XID."""

    device: str
    name: str
    value: int
    text: str


@dataclass(frozen=True)
class Reading:
    """`missing` says what could not be read, and why; `models` what the devices are."""

    values: Sequence[tuple[Counter, float]] = ()
    events: Sequence[Event] = ()
    missing: Mapping[str, str] = field(default_factory=dict)
    models: Mapping[str, str] = field(default_factory=dict)


class SourceMissing(Exception):
    """There is no such source on this machine: `fix` is what would add it, if anything would."""

    def __init__(self, reason: str, fix: str = "") -> None:
        super().__init__(reason)
        self.fix = fix


class SourceFailed(Exception):
    """The source was there and does not answer any more."""


class Source(Protocol):
    """A function that may raise SourceMissing makes it; `read` may block or raise SourceFailed."""

    name: str

    def read(self) -> Reading: ...

    def describe(self) -> str:
        """One line for people: which devices, which driver."""
        ...
