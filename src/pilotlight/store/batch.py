"""A batch of an agent, checked: nothing in it is believed before."""

from __future__ import annotations

import io
from dataclasses import dataclass
from typing import Annotated, Any, Literal

import msgspec
import numpy as np
from msgspec import Meta

from pilotlight.errors import FormatError
from pilotlight.recording.columns import Array, Columns, join_batches
from pilotlight.recording.decoder import Batch as DecodedBatch
from pilotlight.recording.decoder import Damage, StreamDecoder
from pilotlight.recording.schema import Table
from pilotlight.ship.envelope import unseal
from pilotlight.ship.wire import OPTIONAL, PROTOCOL, TABLES

_INT = 1 << 62
Int = Annotated[int, Meta(ge=-_INT, le=_INT)]
Count = Annotated[int, Meta(ge=0, le=_INT)]
Small = Annotated[int, Meta(ge=-1, le=(1 << 31) - 1)]
Label = Annotated[str, Meta(max_length=200)]
Line = Annotated[str, Meta(max_length=500)]
Text = Annotated[str, Meta(max_length=16_384)]
Name = Annotated[str, Meta(min_length=1, max_length=200)]

MOST_ROWS = 2_000_000
_OPTIONAL_DTYPES = {"known": "u2", "size": "u4"}
OLDEST_NS = 35 * 86_400 * 10**9
AHEAD_NS = 3_600 * 10**9


Ratio = Annotated[float, Meta(ge=-1e6, le=1e6)]


class Cost(msgspec.Struct, frozen=True):
    """What collecting costs a process now, by its own meters. None: not known. `sampler_ratio` is
    of a core, the others are of time; the overhead is an interval."""

    sampler_ratio: Ratio | None = None
    rate_hz: Ratio | None = None
    tier: Label = ""
    launches_ratio: Ratio | None = None
    records_ratio: Ratio | None = None
    spent_ratio: Ratio | None = None
    overhead_low: Ratio | None = None
    overhead_high: Ratio | None = None


class Place(msgspec.Struct, frozen=True):
    """A process of a job on the agent's node; the node itself has no job."""

    job: Label
    rank: Small = -1
    attempt: Small = 0
    process: Small = 0
    role: Label = "rank"
    pid: Small = 0
    group: Label = ""
    gpu: Small = -1
    gpu_name: Label = ""
    python: Label = ""
    started_ns: Count = 0
    ended_ns: Count = 0
    how: Label = ""
    step: Int = -1
    last_step_ns: Count = 0
    entered: dict[Label, Count] = {}
    finished: dict[Label, Count] = {}
    operations: dict[Label, Label] = {}
    stack: Label = ""
    read: Count = 0
    dropped: Count = 0
    cpu_ns: Count = 0
    cost: Cost = Cost()


class JobFacts(msgspec.Struct, frozen=True):
    """What the node knows of a job."""

    job: Name
    attempt: Small = 0
    started_ns: Count = 0
    ended_ns: Count = 0
    state: Label = "running"
    exit_code: Annotated[int, Meta(ge=-(1 << 31), le=(1 << 31) - 1)] = 0
    signal: Small = 0
    launcher: Label = ""
    world_size: Small = 0
    command: Text = ""
    facts: dict[str, Any] = {}


class DoctorCheck(msgspec.Struct, frozen=True):
    """A line of what `pilotlight doctor` says of the agent's node."""

    what: Label
    state: Literal["ok", "limited", "broken"]
    detail: Line = ""
    fix: Line = ""


class AgentFacts(msgspec.Struct, frozen=True):
    batch_s: Annotated[float, Meta(ge=0, le=1e6)] = 10.0
    cpu_ratio: Annotated[float, Meta(ge=0, le=1e6)] = 0.0
    rss_bytes: Count = 0
    cpu_ceiling_ratio: Ratio = 0.0
    memory_ceiling_bytes: Count = 0
    level: Small = 0
    spool_bytes: Count = 0
    batches_lost: Count = 0
    rows_lost: Count = 0
    records_dropped: Count = 0
    gpus: Annotated[list[Label], Meta(max_length=1024)] = []
    doctor: Annotated[list[DoctorCheck], Meta(max_length=256)] = []


class Loss(msgspec.Struct, frozen=True):
    job: Label
    what: Label
    count: Count
    time_ns: Count
    attempt: Small = 0


class DeviceEvent(msgspec.Struct, frozen=True):
    """Something that happened to a device, e.g. an XID."""

    time_ns: Count
    device: Label
    name: Label
    value: Int = 0
    text: Label = ""


class Header(msgspec.Struct, frozen=True):
    protocol: Annotated[list[Count], Meta(min_length=1, max_length=4)]
    agent: Annotated[str, Meta(pattern=r"^[A-Za-z0-9_.:-]{1,100}$")]
    epoch: Count
    sequence: Annotated[int, Meta(ge=1, le=_INT)]
    node: Name
    made_ns: Count
    lowest: Count = 1
    cluster: Label = ""
    version: Label = ""
    places: Annotated[list[Place], Meta(max_length=65_536)] = []
    jobs: Annotated[list[JobFacts], Meta(max_length=4096)] = []
    facts: AgentFacts = AgentFacts()
    losses: Annotated[list[Loss], Meta(max_length=4096)] = []
    events: Annotated[list[DeviceEvent], Meta(max_length=4096)] = []


@dataclass(frozen=True)
class Clock:
    """What has to be added to the agent's clock to get the collector's, and how sure that is."""

    offset_ns: int = 0
    uncertainty_ns: int = 0


@dataclass(frozen=True)
class Batch:
    """`tables` are those of wire.py; times are the agent's own until rows are made of them."""

    tenant: str
    header: Header
    clock: Clock
    received_ns: int
    size_bytes: int
    tables: dict[str, Columns]
    skipped: tuple[str, ...]

    @property
    def key(self) -> tuple[str, str, int]:
        return self.tenant, self.header.agent, self.header.epoch

    @property
    def rows(self) -> int:
        return sum(table.rows for table in self.tables.values())


def decode(tenant: str, body: bytes, clock: Clock, received_ns: int) -> Batch:
    """FormatError says what is wrong with the batch."""
    raw, streams = unseal(body)
    try:
        header = msgspec.convert(raw, Header)
    except msgspec.ValidationError as error:
        raise FormatError(f"the header of the batch: {error}") from None
    except RecursionError:
        raise FormatError("the header of the batch is nested too deep") from None
    if header.protocol[0] != PROTOCOL[0]:
        raise FormatError(f"protocol {header.protocol[0]} is not spoken here, {PROTOCOL[0]} is")
    tables = {
        name: _columns(TABLES[name], stream) for name, stream in streams.items() if name in TABLES
    }
    batch = Batch(
        tenant=tenant,
        header=header,
        clock=clock,
        received_ns=received_ns,
        size_bytes=len(body),
        tables=tables,
        skipped=tuple(name[:40] for name in streams if name not in TABLES),
    )
    if batch.rows > MOST_ROWS:
        raise FormatError(f"a batch of more than {MOST_ROWS} rows")
    for name, table in tables.items():
        if "place" in table.arrays and table.rows:
            highest = int(table["place"].max())
            if highest >= len(header.places):
                raise FormatError(f"{name}: place {highest} of {len(header.places)}")
    return batch


def corrected(batch: Batch, times: Array) -> tuple[Array, Array]:
    """Times on the collector's clock, and which of them can be."""
    shifted = times + np.int64(batch.clock.offset_ns)
    earliest, latest = batch.received_ns - OLDEST_NS, batch.received_ns + AHEAD_NS
    return shifted, (shifted >= earliest) & (shifted <= latest)


def _columns(table: Table, stream: memoryview) -> Columns:
    """An older agent may not know the optional columns: then they are 0."""
    try:
        return _read(table, stream)
    except FormatError:
        optional = OPTIONAL.get(table.name, frozenset())
        if not optional:
            raise
        needed = tuple(column for column in table.columns if column.name not in optional)
        found = _read(Table(table.name, needed), stream)
        missing: dict[str, Array] = {
            name: np.zeros(found.rows, _OPTIONAL_DTYPES.get(name, "i8")) for name in optional
        }
        return Columns(found.rows, {**found.arrays, **missing}, found.texts)


def _read(table: Table, stream: memoryview) -> Columns:
    data = bytes(stream)
    pieces: list[DecodedBatch] = []
    for piece in StreamDecoder(io.BytesIO(data), table, len(data), ()).read():
        if isinstance(piece, Damage):
            raise FormatError(f"{table.name}: at byte {piece.start}: {piece.reason}")
        pieces.append(piece)
    columns, problems = join_batches(table, pieces)
    if problems:
        raise FormatError(problems[0])
    return columns
