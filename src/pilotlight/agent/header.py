"""What the header of a batch says of a job: its places, facts and losses."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from pilotlight.agent.shipment import JobShipment, ProcessShipment
from pilotlight.ship.wire import PARTLY_RECKONED

_IDENTITY = ("python", "version", "container", "role", "launcher")
_MOST_FACTS = 100
_LONGEST_FACT = 200
_MOST = 1 << 62

Described = dict[str, object]


def add_places(
    places: list[Described],
    shipment: JobShipment,
    gpus: Sequence[str],
    held: Mapping[int, int] | None,
    to_realtime_ns: int,
) -> dict[int, int]:
    """A place for each process; returns by index which. `held`: DeviceShipment.held_by."""
    chosen = {}
    for index, one in shipment.processes.items():
        chosen[index] = len(places)
        place = _place(shipment.job.name, one, shipment.has_ranks, to_realtime_ns)
        places.append({**place, "gpu": _gpu(one, gpus, held)})
    return chosen


def _gpu(one: ProcessShipment, gpus: Sequence[str], held: Mapping[int, int] | None) -> int:
    """-1: there is none. Where the driver does not tell: by custom the n-th rank of a node has its
    n-th GPU."""
    if held is not None:
        return held.get(one.process.pid, -1)
    local_rank = one.process.identity.get("local_rank")
    return local_rank if isinstance(local_rank, int) and 0 <= local_rank < len(gpus) else -1


def _place(job: str, one: ProcessShipment, has_ranks: bool, to_realtime_ns: int) -> Described:
    process, identity = one.process, one.process.identity
    rank, role = identity.get("rank"), str(identity.get("role", "main"))
    if not isinstance(rank, int) or not 0 <= rank < 1 << 31:
        rank = 0 if role == "main" and not has_ranks else -1
        role = "launcher" if role == "main" and has_ranks else role
    return {
        "job": job,
        "attempt": _number(identity.get("attempt")),
        "rank": rank,
        "process": process.index,
        "role": role[:200],
        "pid": process.pid,
        "group": one.group[:200],
        "python": str(identity.get("python", ""))[:200],
        "started_ns": process.began_ns + to_realtime_ns,
        "ended_ns": one.ended_ns + to_realtime_ns if one.ended_ns else 0,
        "how": one.how,
        "step": max(-_MOST, min(one.last_step, _MOST)),
        "last_step_ns": one.last_step_ns + to_realtime_ns if one.last_step_ns else 0,
        "entered": _bounded(one.waits.entered),
        # By one count: that of the flight recorder where the rank was asked for it.
        "finished": _bounded({**one.finished, **one.waits.finished}),
        "operations": one.waits.operations,
        "stack": one.stack[:200],
        "read": process.read,
        "dropped": one.dropped,
    }


def _bounded(counts: Mapping[str, int]) -> dict[str, int]:
    """What a process says may be anything; one of them must not have the whole batch refused."""
    return {name[:200]: max(0, min(count, _MOST)) for name, count in counts.items()}


def job_facts(
    shipment: JobShipment, is_over: bool, realtime_ns: int, gpus: Sequence[str]
) -> Described:
    job, identity = shipment.job, shipment.identity
    outcome = job.outcome
    if outcome is None:
        exit_code, signal = max(0, shipment.exit_code), max(0, -shipment.exit_code)
    else:
        exit_code, signal = outcome.exit_code or 0, outcome.signal or 0
    state = "running" if not is_over else "failed" if exit_code or signal else "finished"
    return {
        "job": job.name,
        "attempt": _number(identity.get("attempt")),
        "started_ns": job.recorder.manifest.created_ns,
        "ended_ns": realtime_ns if is_over else 0,
        "state": state,
        "exit_code": exit_code,
        "signal": signal,
        "launcher": str(identity.get("launcher") or "")[:200],
        "world_size": _number(identity.get("world_size")),
        "command": " ".join(job.recorder.manifest.command)[:4000],
        "facts": {
            **known_facts(identity, gpus),
            **({"communication": PARTLY_RECKONED} if shipment.is_reckoned else {}),
        },
    }


def known_facts(identity: Mapping[str, object], gpus: Sequence[str]) -> Described:
    """What a rank said of itself and its frameworks, as names and plain values; bounded."""
    found = {key: identity[key] for key in _IDENTITY if identity.get(key) is not None}
    told = identity.get("facts")
    for name, value in told.items() if isinstance(told, Mapping) else ():
        if name.endswith(".environment") and isinstance(value, (list, tuple)):
            pairs = (str(pair).partition("=") for pair in value)
            found |= {f"env {key}": text for key, _, text in pairs}
        else:
            found[name] = value
    if gpus:
        counts = Counter(gpus)
        found["gpus"] = ", ".join(f"{count} x {model}" for model, count in counts.items())
    return {
        str(name)[:_LONGEST_FACT]: value if isinstance(value, (int, float)) else _text(value)
        for name, value in list(found.items())[:_MOST_FACTS]
    }


def loss(job: str, what: str, count: int, time_ns: int) -> Described:
    return {"job": job, "what": what, "count": count, "time_ns": time_ns}


def _text(value: object) -> str:
    return str(value)[:_LONGEST_FACT]


def _number(value: object) -> int:
    return value if isinstance(value, int) and 0 <= value < 1 << 31 else 0
