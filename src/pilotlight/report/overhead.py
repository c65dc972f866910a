"""What pilotlight itself cost, measured by itself."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from pilotlight.recording.recording import Recording

# In less than a second what it takes to open and close a recording would pass for a rate.
_LEAST_NS = 1_000_000_000


@dataclass(frozen=True)
class SamplerCost:
    """`cpu_ratio` of one core; rates count rounds over all threads, `asked_hz` is a mean."""

    process: int
    cpu_ratio: float
    achieved_hz: float
    asked_hz: float
    samples: int


@dataclass(frozen=True)
class Overhead:
    """None: not measured."""

    samplers: tuple[SamplerCost, ...]
    agent_cpu_ratio: float | None
    agent_rss_bytes: int | None
    recorded_bytes: int


def overhead_of(recording: Recording) -> Overhead:
    agent = recording.manifest.agent
    return Overhead(
        samplers=_samplers(recording),
        agent_cpu_ratio=agent.cpu_ns / agent.wall_ns if agent.wall_ns >= _LEAST_NS else None,
        agent_rss_bytes=agent.rss_bytes or None,
        recorded_bytes=recording.manifest.detail_bytes,
    )


def _samplers(recording: Recording) -> tuple[SamplerCost, ...]:
    """A row counts what happened since the row before; the first row of a process has no begin."""
    table = recording.detail("sampler")
    result = []
    for process in np.unique(table["process"]).tolist():
        mine = table.where(table["process"] == process)
        order = np.argsort(mine["time_ns"], kind="stable")
        time_ns = mine["time_ns"][order]
        elapsed_ns = int(time_ns[-1] - time_ns[0])
        if elapsed_ns <= 0:
            continue
        periods_ns = mine["period_ns"][order][1:]
        asked_hz = np.divide(1e9, periods_ns, out=np.zeros(periods_ns.size), where=periods_ns > 0)
        result.append(
            SamplerCost(
                process=process,
                cpu_ratio=int(mine["cpu_ns"][order][1:].sum()) / elapsed_ns,
                achieved_hz=int(mine["passes"][order][1:].sum()) * 1e9 / elapsed_ns,
                asked_hz=float(asked_hz.mean()),
                samples=int(mine["taken"].sum(dtype=np.int64)),
            )
        )
    return tuple(result)
