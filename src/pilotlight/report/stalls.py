"""Why kernels stall, by the PC samples of a capture (docs/gpu.md)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from pilotlight.recording.recording import Recording
from pilotlight.recording.schema import ActivityKind

STALLS_LISTED = 200
# What the hardware calls them, in words.
WORDS = {
    "barrier": "waits at a barrier",
    "branch_resolving": "waits for a branch",
    "dispatch_stall": "waits to be dispatched",
    "drain": "waits for its stores",
    "imc_miss": "waits for constants",
    "lg_throttle": "too many memory requests",
    "long_scoreboard": "waits for global memory",
    "math_pipe_throttle": "math units are busy",
    "membar": "waits at a memory barrier",
    "mio_throttle": "too many shared-memory requests",
    "no_instructions": "waits for instructions",
    "not_selected": "another warp was chosen",
    "selected": "runs",
    "short_scoreboard": "waits for shared memory",
    "sleeping": "sleeps",
    "tex_throttle": "too many texture requests",
    "wait": "fixed latency",
}


@dataclass(frozen=True)
class Stall:
    """`hottest_offset`: of the instruction, in bytes from the function's start, that was sampled
    most with this reason."""

    reason: str
    samples: int
    ratio: float
    hottest_offset: int


@dataclass(frozen=True)
class FunctionStalls:
    """A kernel; `ratio` of all samples. `cubin_crc` says which binary it is of."""

    function: str
    cubin_crc: int
    samples: int
    ratio: float
    stalls: tuple[Stall, ...]


def stalls_of(recording: Recording, since_ns: int = 0) -> tuple[FunctionStalls, ...]:
    """The most sampled first; of windows that began before `since_ns` nothing."""
    rows = recording.detail("activities")
    rows = rows.where((rows["kind"] == ActivityKind.PC_SAMPLES) & (rows["start_ns"] >= since_ns))
    texts = recording.names.texts
    functions = recording.names.find(rows["process"], rows["name"]).tolist()
    reasons = recording.names.find(rows["process"], rows["range"]).tolist()
    sums: dict[tuple[str, int], dict[str, tuple[int, int, int]]] = {}
    samples = np.maximum(rows["bytes"], 0).tolist()
    columns = (rows["correlation"].tolist(), samples, rows["detail"].tolist())
    for function, reason, crc, count, offset in zip(functions, reasons, *columns, strict=True):
        mine = sums.setdefault((texts[function], crc), {})
        total, most, place = mine.get(texts[reason], (0, 0, 0))
        mine[texts[reason]] = (total + count, *max((most, place), (count, offset)))
    whole = sum(one[0] for mine in sums.values() for one in mine.values()) or 1
    found = [_function(name, crc, mine, whole) for (name, crc), mine in sums.items()]
    found.sort(key=lambda one: (-one.samples, one.function))
    return tuple(found)


def _function(
    name: str, crc: int, reasons: dict[str, tuple[int, int, int]], whole: int
) -> FunctionStalls:
    own = sum(total for total, _, _ in reasons.values())
    stalls = [
        Stall(reason or "unknown", total, total / (own or 1), offset)
        for reason, (total, _, offset) in reasons.items()
    ]
    stalls.sort(key=lambda one: (-one.samples, one.reason))
    return FunctionStalls(name or "(name lost)", crc, own, own / whole, tuple(stalls))


def described(function: FunctionStalls, most: int = 3) -> str:
    """`waits for global memory 50 %, math units are busy 33 %`."""
    return ", ".join(
        f"{WORDS.get(stall.reason, stall.reason)} {stall.ratio:.0%}"
        for stall in function.stalls[:most]
    )
