"""What the person who starts an agent can choose, and what it takes for granted."""

from __future__ import annotations

import resource
from dataclasses import dataclass, replace
from pathlib import Path

from pilotlight.ship.target import Target


@dataclass(frozen=True)
class Settings:
    budget_bytes: int = 256 << 20
    memory_folder: Path | None = None  # where detail is kept instead of on disk
    ends_itself: bool = False
    cpu_ceiling_ratio: float = 0.02
    memory_ceiling_bytes: int = 128 << 20
    most_processes: int = 1024
    most_jobs: int = 64
    most_clients: int = 128
    counters_period_ns: int = 1_000_000_000  # how often devices are read; 0: never
    collector: Target | None = None


# The link, the handle of the process, the reader's own copy of the segment, the errands.
_DESCRIPTORS_A_PROCESS = 4
# Two chunks with a file a table.
_DESCRIPTORS_A_JOB = 48
_DESCRIPTORS_SPARE = 64


def within_limits(settings: Settings) -> Settings:
    """Fewer jobs and processes where this process may have few descriptors, after it has asked for
    all it can get."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    room = hard - _DESCRIPTORS_SPARE - settings.most_clients
    jobs = max(1, min(settings.most_jobs, room // 3 // _DESCRIPTORS_A_JOB))
    for_processes = room - jobs * _DESCRIPTORS_A_JOB
    processes = max(1, min(settings.most_processes, for_processes // _DESCRIPTORS_A_PROCESS))
    return replace(settings, most_jobs=jobs, most_processes=processes)
