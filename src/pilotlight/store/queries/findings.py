"""Findings and captures: what was noticed, and the detail that was kept of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from pilotlight.store.queries.reader import Reader


@dataclass(frozen=True)
class FindingRow:
    job: str
    attempt: int
    id: str
    rule: str
    cause: str
    title: str
    state: str
    severity: str
    ranks: tuple[int, ...]
    nodes: tuple[str, ...]
    place: str
    evidence: tuple[str, ...]
    fix: str
    gain_low_ratio: float
    gain_high_ratio: float
    confidence: str
    wasted_gpu_s: float
    opened_ns: int
    updated_ns: int
    closed_ns: int
    capture: str


@dataclass(frozen=True)
class CaptureRow:
    job: str
    attempt: int
    id: str
    reason: str
    asked_by: str
    finding: str
    state: str
    problem: str
    ranks: tuple[int, ...]
    nodes: tuple[str, ...]
    from_ns: int
    to_ns: int
    requested_ns: int
    updated_ns: int
    expires_ns: int
    files: int
    bytes: int


_FINDING = ", ".join(FindingRow.__dataclass_fields__)
_CAPTURE = ", ".join(CaptureRow.__dataclass_fields__)


def findings(
    reader: Reader, job: str = "", state: str = "", since_ns: int = 0, limit: int = 500
) -> list[FindingRow]:
    """Open ones first, the latest first among them."""
    found = reader.select(
        f"SELECT {_FINDING} FROM findings FINAL WHERE tenant = {{tenant:String}} "
        "AND ({job:String} = '' OR job = {job:String}) "
        "AND ({state:String} = '' OR state = {state:String}) AND updated_ns >= {since_ns:Int64} "
        "ORDER BY state = 'open' DESC, opened_ns DESC LIMIT {limit:UInt32}",
        job=job,
        state=state,
        since_ns=since_ns,
        limit=limit,
    )
    return [FindingRow(*(_plain(value) for value in row)) for row in found]


def captures(reader: Reader, job: str = "", limit: int = 200) -> list[CaptureRow]:
    """The latest first."""
    found = reader.select(
        f"SELECT {_CAPTURE} FROM captures FINAL WHERE tenant = {{tenant:String}} "
        "AND ({job:String} = '' OR job = {job:String}) "
        "ORDER BY requested_ns DESC LIMIT {limit:UInt32}",
        job=job,
        limit=limit,
    )
    return [CaptureRow(*(_plain(value) for value in row)) for row in found]


def _plain(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value
