"""What the agent says of itself and of every process: all that `pilotlight top` shows."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict
from typing import Any

from pilotlight.agent.governor import Governor
from pilotlight.agent.job import Job
from pilotlight.agent.process import Process, Rates
from pilotlight.agent.session import Session
from pilotlight.agent.tiers import tier_of
from pilotlight.recording.schema import SpanKind, State

# A line of the agent holds 1 MiB, and more than processes is to be told.
_MOST_BYTES = 800_000
_MOST_FUNCTIONS = 3
_TEXT = 160
# Rates are told from a look at least this long ago, however many look.
_RATE_NS = 900_000_000


def process_status(job: str, process: Process, now_ns: int) -> dict[str, object]:
    live: dict[str, Any] = with_open_phases(dict(process.reader.live()), now_ns)
    process.looks = looks_after(process.looks, Rates(now_ns, live))
    before = process.looks[0]
    elapsed_ns = now_ns - before.time_ns
    rates = _rates(before.live, live, elapsed_ns)
    sampler = live["sampler"]
    return {
        "job": job,
        "process": process.index,
        "rank": process.identity.get("rank"),
        "role": process.identity.get("role"),
        "pid": process.pid,
        "command": _command(process.identity),
        "alive": process.how_ended is None,
        "connected": process.link is not None,
        "age_ns": now_ns - process.began_ns,
        "steps": live["steps"],
        "step": live["step"],
        "step_ns": live["step_ns"],
        "since_step_ns": now_ns - live["last_step_ns"] if live["last_step_ns"] else None,
        **rates,
        "phases": process.untold.shared(
            _phases(before.live, live, elapsed_ns), float(rates["steps_per_s"])
        ),
        "phase": _phase_under_way(live, now_ns),
        "functions": process.functions.top(_MOST_FUNCTIONS) if process.functions else [],
        "open": [str(name)[:_TEXT] for name, *_ in live["open"][-_MOST_FUNCTIONS:]],
        "read": process.read,
        "dropped": process.dropped,
        "losses": process.reader.losses(),
        "sampler": sampler,
        "fill_ratio": round(process.fill_ratio, 4),
        "lag_ns": now_ns - process.polled_ns,
        "off": process.reader.off(),
        "gpu": asdict(coverage) if (coverage := process.coverage(live)) else None,
    }


def looks_after(looks: tuple[Rates, Rates], now: Rates) -> tuple[Rates, Rates]:
    """The look that rates are told from, and the one that they will be told from next."""
    older, newer = looks
    is_due = not newer.live or now.time_ns - newer.time_ns >= _RATE_NS
    return (newer, now) if is_due else (older, newer)


def _rates(before: Mapping[str, Any], live: Mapping[str, Any], elapsed_ns: int) -> dict[str, Any]:
    """Steps a second and the share of each state since `before`."""
    steps = live["steps"] - before.get("steps", 0)
    earlier = before.get("state_ns", [0] * len(State))
    spent = [now - then for now, then in zip(live["state_ns"], earlier, strict=True)]
    whole = sum(spent)
    return {
        "steps_per_s": round(steps * 1e9 / elapsed_ns, 4) if elapsed_ns > 0 else 0.0,
        "states": {
            state.name.lower(): round(spent[state] / whole, 4) if whole else 0.0 for state in State
        },
    }


def _phases(
    before: Mapping[str, Any], live: Mapping[str, Any], elapsed_ns: int
) -> dict[str, float]:
    """The share of each phase in the time since `before`."""
    earlier = before.get("phases", {})
    return {
        str(name): round(min(1.0, (total_ns - earlier.get(name, 0)) / elapsed_ns), 4)
        for name, total_ns in live["phases"].items()
        if elapsed_ns > 0
    }


def with_open_phases(live: dict[str, Any], now_ns: int) -> dict[str, Any]:
    """Phases that go on count as far as they have come: a rank that hangs in one is in it."""
    phases = dict(live["phases"])
    for name, start_ns in _open_phases(live):
        phases[name] = phases.get(name, 0) + max(0, now_ns - start_ns)
    return live | {"phases": phases}


def _phase_under_way(live: Mapping[str, Any], now_ns: int) -> dict[str, object] | None:
    """Of several threads' the one that began last: the others wait for it, as a rule."""
    under_way = _open_phases(live)
    if not under_way:
        return None
    name, start_ns = max(under_way, key=lambda phase: phase[1])
    return {"name": name[:_TEXT], "for_ns": max(0, now_ns - start_ns)}


def _open_phases(live: Mapping[str, Any]) -> list[tuple[str, int]]:
    return [(str(name), start) for name, kind, start in live["open"] if kind == SpanKind.PHASE]


def _command(identity: Mapping[str, object]) -> str:
    command = identity.get("command")
    words = [str(word) for word in command] if isinstance(command, list) else [str(command or "")]
    return " ".join(words)[:_TEXT]


def job_status(job: Job) -> dict[str, object]:
    recorder = job.recorder
    processes = job.processes.values()
    return {
        "job": job.name,
        "folder": str(job.folder),
        "processes": len(job.processes),
        "processes_ever": recorder.roster.count,
        "agents": 1 + len(recorder.manifest.agent.restarts),
        "records_read": job.ended_read + sum(process.read for process in processes),
        "records_dropped": job.ended_dropped + sum(process.dropped for process in processes),
        "paused": job.is_paused,
        "finishing": job.finish is not None,
        "detail_bytes": recorder.detail.bytes,
        "windows_bytes": recorder.windows.bytes,
        "chunks_dropped": recorder.detail.chunks_dropped,
        "rows_dropped": recorder.rows_dropped + recorder.windows.rows_dropped,
        "lines_lost": recorder.roster.lost,
        "errors": list(recorder.errors),
        "ended": [
            {"pid": ended.pid, "process": ended.index, "how": ended.how}
            for ended in list(job.ended)[-10:]
        ],
    }


def governor_status(governor: Governor) -> dict[str, object]:
    usage = governor.latest
    return {
        "cpu_ratio": round(governor.cpu_ratio(), 5),
        "cpu_ns": usage.cpu_ns,
        "rss_bytes": usage.rss_bytes,
        "own_bytes": usage.own_bytes,
        "cpu_ceiling_ratio": governor.cpu_ceiling_ratio,
        "memory_ceiling_bytes": governor.memory_ceiling_bytes,
        "level": governor.level,
        "squeeze": governor.squeeze,
        "poll_ns": governor.pace.poll_idle_ns,
        "period_factor": governor.pace.period_factor,
        "actions": dict(governor.actions),
    }


def client_status(session: Session, now_ns: int) -> dict[str, object]:
    return {
        "pid": session.pid,
        "age_ns": now_ns - session.since_ns,
        "kinds": sorted(session.subscribed.kinds) if session.subscribed else [],
        "tier": tier.name.lower() if (tier := tier_of(session, now_ns)) else None,
        "queued": session.queued,
        "queued_bytes": session.queued_bytes,
        "dropped": session.dropped,
    }


def processes_status(jobs: Iterable[Job], now_ns: int) -> tuple[list[dict[str, object]], int]:
    """All processes, and how many were left out to keep the answer short."""
    everybody = [(job.name, process) for job in jobs for process in job.processes.values()]
    shown: list[dict[str, object]] = []
    size = 0
    for job_name, process in everybody:
        one = process_status(job_name, process, now_ns)
        size += len(json.dumps(one))
        if size > _MOST_BYTES:
            break
        shown.append(one)
    return shown, len(everybody) - len(shown)
