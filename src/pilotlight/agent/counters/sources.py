"""Which sources there are; a new kind of device is one more line."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from pilotlight.agent.counters.amd import open_amd
from pilotlight.agent.counters.cgroup import Cgroup
from pilotlight.agent.counters.host import open_host
from pilotlight.agent.counters.infiniband import open_infiniband
from pilotlight.agent.counters.nvml import open_nvml
from pilotlight.agent.counters.source import Source


def all_sources(pids: Callable[[], Iterable[int]]) -> dict[str, Callable[[], Source]]:
    """`pids`: the processes that are being recorded."""
    return {
        "host": open_host,
        "cgroup": lambda: Cgroup(pids),
        "infiniband": open_infiniband,
        "nvml": open_nvml,
        "amd": open_amd,
    }
