"""The events of the Chrome trace format, as far as they are used."""

from __future__ import annotations

from typing import Any, Union

import msgspec

from pilotlight.trace.trace import NONE

Id = int | str | float | None
Text = str | int | float | None


class Arguments(msgspec.Struct, gc=False):
    """What is used of `args`; all else is skipped without being built."""

    correlation: Id = NONE
    bytes: Id = NONE


class Complete(msgspec.Struct, gc=False, tag="X", tag_field="ph"):
    name: Text = ""
    cat: str | None = ""
    pid: Id = None
    tid: Id = None
    ts: float = 0.0
    dur: float = 0.0
    args: Arguments | None = None


class Begin(msgspec.Struct, gc=False, tag="B", tag_field="ph"):
    name: Text = ""
    cat: str | None = ""
    pid: Id = None
    tid: Id = None
    ts: float = 0.0
    args: Arguments | None = None


class End(msgspec.Struct, gc=False, tag="E", tag_field="ph"):
    pid: Id = None
    tid: Id = None
    ts: float = 0.0


class Counter(msgspec.Struct, gc=False, tag="C", tag_field="ph"):
    name: Text = ""
    ts: float = 0.0
    args: dict[str, Any] | None = None


class MemoryArguments(msgspec.Struct, gc=False):
    allocated: float | None = msgspec.field(default=None, name="Total Allocated")
    device: Id = msgspec.field(default=None, name="Device Id")


class Instant(msgspec.Struct, gc=False, tag="i", tag_field="ph"):
    name: Text = ""
    ts: float = 0.0
    args: MemoryArguments | None = None


class Metadata(msgspec.Struct, gc=False, tag="M", tag_field="ph"):
    name: Text = ""
    pid: Id = None
    tid: Id = None
    args: dict[str, Any] | None = None


# Flow events (s, t, f) only repeat the correlation ids; the others have no place in the model.
UNUSED_PHASES = "stfbenISTpFPNODRcvV()"
UNUSED = {
    msgspec.defstruct(f"Unused{ord(phase)}", [], tag=phase, tag_field="ph", gc=False): phase
    for phase in UNUSED_PHASES
}

_USED = (Complete, Begin, End, Counter, Instant, Metadata)
Event: Any = Union[_USED + tuple(UNUSED)]  # noqa: UP007


def event_decoder() -> msgspec.json.Decoder[Any]:
    return msgspec.json.Decoder(list[Event])


class Document(msgspec.Struct):
    """A whole trace; of the rest of the object only what is used."""

    traceEvents: list[Event]
    deviceProperties: Any = None
    distributedInfo: Any = None
    baseTimeNanoseconds: Any = None

    def metadata(self) -> dict[str, Any]:
        found = {
            "deviceProperties": self.deviceProperties,
            "distributedInfo": self.distributedInfo,
            "baseTimeNanoseconds": self.baseTimeNanoseconds,
        }
        return {key: value for key, value in found.items() if value is not None}


def document_decoder() -> msgspec.json.Decoder[Any]:
    return msgspec.json.Decoder(Document)
