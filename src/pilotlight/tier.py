"""What is collected from GPUs: clients ask for a tier, and the widest of them counts."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum


class Tier(IntEnum):
    """Values of native/provider/provider_api.h."""

    DEFAULT = 0  # as the job was started: launches always, device records within the ceiling
    LAUNCHES = 1
    RECORDS = 2
    NODES = 3
    OFF = 4
    ALL = 5
    PC = 6  # records, and PC sampling in every other window
    PM = 7  # the same with PM sampling
    RANGE = 8  # the range profiler instead of records


# What a client may ask for, from narrow to wide. All of them stay within the job's ceiling.
ASKED = {
    "launches": Tier.LAUNCHES,
    "records": Tier.RECORDS,
    "nodes": Tier.NODES,
    "pc": Tier.PC,
    "pm": Tier.PM,
    "range": Tier.RANGE,
}
# By hardware sampling; each says how much under its own name.
SAMPLING = (Tier.PC, Tier.PM, Tier.RANGE)
_NAMES = {tier: tier.name.lower() for tier in Tier} | {Tier.DEFAULT: "records"}


@dataclass(frozen=True)
class TierRequest:
    """Who wants how much of a job."""

    client: str
    tier: Tier


@dataclass(frozen=True)
class Sampling:
    """Hardware sampling of a process: its share of time, and all samples so far."""

    method: str  # of ASKED
    ratio: float
    samples: int  # of the range profiler: kernels
    dropped: int  # for lack of room; of PM sampling: windows that were cut
    refused: int  # by CUPTI, with this number; 0: it is not


@dataclass(frozen=True)
class Coverage:
    """What a process collects now. Ratios of time; None: not told, or not known yet."""

    process: int
    pid: int
    rank: int | None
    tier: str
    launches_ratio: float
    records_ratio: float
    spent_ratio: float | None
    overhead_low: float | None
    overhead_high: float | None
    sampling: Sampling | None


def widest(requests: Iterable[TierRequest]) -> Tier:
    """What the probes are told. Up to records they do what the job was started with."""
    tier = max((request.tier for request in requests), default=Tier.DEFAULT)
    return tier if tier > Tier.RECORDS else Tier.DEFAULT


def coverage_of(
    process: int, pid: int, rank: int | None, counters: Mapping[str, float]
) -> Coverage | None:
    """By the counters of its GPU provider; None if it has none. A program may call its own counters
    the same, with any values."""
    counters = {name: value for name, value in counters.items() if math.isfinite(value)}
    if "tier" not in counters:
        return None
    tier = int(counters["tier"])
    return Coverage(
        process=process,
        pid=pid,
        rank=rank,
        tier=_NAMES[Tier(tier)] if tier in Tier.__members__.values() else "unknown",
        launches_ratio=counters.get("launches_duty", 0.0),
        records_ratio=counters.get("duty", 0.0),
        spent_ratio=counters.get("spent_ratio"),
        overhead_low=counters.get("overhead_low"),
        overhead_high=counters.get("overhead_high"),
        sampling=_sampling_of(Tier(tier), counters) if tier in SAMPLING else None,
    )


def _sampling_of(tier: Tier, counters: Mapping[str, float]) -> Sampling:
    method = tier.name.lower()
    dropped = "pm_cut_windows" if tier == Tier.PM else f"{method}_dropped"
    return Sampling(
        method=method,
        ratio=counters.get(f"{method}_duty", 0.0),
        samples=int(counters.get(f"{method}_samples", 0)),
        dropped=int(counters.get(dropped, 0)),
        refused=int(counters.get(f"{method}_refused", 0)),
    )


def tier_status(requests: Sequence[TierRequest]) -> dict[str, object]:
    """Who asked for what, and what came of it."""
    asked = [{"client": one.client, "tier": one.tier.name.lower()} for one in requests]
    return {"tier": _NAMES[widest(requests)], "asked": asked}
