"""Keeps the agent within its ceilings: measures what it costs and does less when it is too much."""

from __future__ import annotations

import contextlib
import time
from collections import Counter, deque
from dataclasses import dataclass
from pathlib import Path

_AVERAGE_NS = 10_000_000_000
_SETTLE_NS = 3_000_000_000
_CALM_NS = 10_000_000_000
_CALM_RATIO = 0.5
_MS = 1_000_000
_GROWTH_RATIO = 0.25
_URGENT_RATIO = 0.5
_FULL_RATIO = 0.8
_MARGIN_NS = 60 * _MS
_RELEASE_BYTES = 16 << 20


@dataclass(frozen=True)
class Usage:
    """Of this process. `own_bytes` leaves out the pages of the segments, which the jobs pay for."""

    time_ns: int
    cpu_ns: int
    rss_bytes: int
    own_bytes: int


@dataclass(frozen=True)
class Pace:
    """How hard the agent works."""

    poll_busy_ns: int
    poll_idle_ns: int
    commit_ns: int
    period_factor: int


# First the agent itself does less, then the probes are asked to.
PACES = (
    Pace(10 * _MS, 250 * _MS, 1000 * _MS, 1),
    Pace(20 * _MS, 250 * _MS, 1000 * _MS, 1),
    Pace(50 * _MS, 500 * _MS, 2000 * _MS, 1),
    Pace(100 * _MS, 1000 * _MS, 4000 * _MS, 1),
    Pace(100 * _MS, 1000 * _MS, 4000 * _MS, 2),
    Pace(100 * _MS, 1000 * _MS, 4000 * _MS, 4),
    Pace(200 * _MS, 2000 * _MS, 8000 * _MS, 10),
)
MOST_SQUEEZE = 6


def own_usage() -> Usage:
    rss = shared = 0
    for line in Path("/proc/self/status").read_text().splitlines():
        name, _, value = line.partition(":")
        if name == "VmRSS":
            rss = int(value.split()[0]) * 1024
        elif name == "RssShmem":
            shared = int(value.split()[0]) * 1024
    return Usage(time.monotonic_ns(), time.process_time_ns(), rss, rss - shared)


def release_free_memory() -> None:
    """Gives back what the allocator keeps after many processes have come and gone."""
    import ctypes

    # Only glibc keeps that much, and only glibc has this call.
    with contextlib.suppress(AttributeError, OSError):
        ctypes.CDLL(None).malloc_trim(0)


class Governor:
    """Fed once a second; `pace` and `squeeze` say what the rest of the agent has to keep to."""

    def __init__(self, cpu_ceiling_ratio: float, memory_ceiling_bytes: int, start: Usage) -> None:
        self.cpu_ceiling_ratio = cpu_ceiling_ratio
        self.memory_ceiling_bytes = memory_ceiling_bytes
        self.actions: Counter[str] = Counter()
        self.squeeze = 0
        self._level = 0
        self._usages: deque[Usage] = deque([start])
        self._level_changed_ns = start.time_ns
        self._squeeze_changed_ns = start.time_ns
        self._released_bytes = start.own_bytes

    def wants_release(self, usage: Usage) -> bool:
        """Whether memory has grown so much that it is worth giving back what is free of it."""
        if usage.own_bytes - self._released_bytes < _RELEASE_BYTES:
            self._released_bytes = min(self._released_bytes, usage.own_bytes)
            return False
        self._released_bytes = usage.own_bytes
        self.actions["memory_released"] += 1
        return True

    @property
    def level(self) -> int:
        return self._level

    @property
    def pace(self) -> Pace:
        return PACES[self._level]

    @property
    def latest(self) -> Usage:
        return self._usages[-1]

    def cpu_ratio(self) -> float:
        """Of one core, over the last 10 s."""
        first, last = self._usages[0], self._usages[-1]
        wall_ns = last.time_ns - first.time_ns
        return (last.cpu_ns - first.cpu_ns) / wall_ns if wall_ns > 0 else 0.0

    def observe(self, usage: Usage) -> None:
        self._usages.append(usage)
        while len(self._usages) > 2 and usage.time_ns - self._usages[1].time_ns >= _AVERAGE_NS:
            self._usages.popleft()
        self._govern_cpu(usage.time_ns)
        self._govern_memory(usage)

    def _govern_cpu(self, now_ns: int) -> None:
        ratio = self.cpu_ratio()
        settled_ns = now_ns - self._level_changed_ns
        if ratio > self.cpu_ceiling_ratio and self._level + 1 < len(PACES):
            if settled_ns >= _SETTLE_NS:
                self._set_level(self._level + 1, now_ns, "slower")
        elif (
            ratio < self.cpu_ceiling_ratio * _CALM_RATIO
            and self._level > 0
            and settled_ns >= _CALM_NS
        ):
            self._set_level(self._level - 1, now_ns, "faster")

    def _set_level(self, level: int, now_ns: int, action: str) -> None:
        if PACES[level].period_factor != self.pace.period_factor:
            self.actions[f"period_{action}"] += 1
        else:
            self.actions[f"poll_{action}"] += 1
        self._level = level
        self._level_changed_ns = now_ns

    def _govern_memory(self, usage: Usage) -> None:
        settled_ns = usage.time_ns - self._squeeze_changed_ns
        if usage.own_bytes > self.memory_ceiling_bytes and self.squeeze < MOST_SQUEEZE:
            self.squeeze += 1
            self.actions["queues_smaller"] += 1
            self._squeeze_changed_ns = usage.time_ns
        elif (
            usage.own_bytes < self.memory_ceiling_bytes * 0.8
            and self.squeeze > 0
            and settled_ns >= _CALM_NS
        ):
            self.squeeze -= 1
            self.actions["queues_larger"] += 1
            self._squeeze_changed_ns = usage.time_ns


def is_urgent(fill_ratio: float, growth_ratio: float, elapsed_ns: int) -> bool:
    """Whether what a ring holds has to be committed now; its fill grew by that much in that time.

    At the next poll it should still have room for a commit that takes long: a fifth, and if it will
    be more than half full, for as long as a slow disk takes.
    """
    after_ratio = fill_ratio + growth_ratio
    if after_ratio <= _URGENT_RATIO:
        return False
    is_slow = growth_ratio * _MARGIN_NS < (1 - after_ratio) * elapsed_ns
    return after_ratio > _FULL_RATIO or not is_slow


def poll_interval_ns(growth_ratio: float, elapsed_ns: int, pace: Pace) -> int:
    """When to look at a segment again, so that its fullest ring gains about a quarter until then.

    At most twice as long as the last time: what is quiet now may have just begun.
    """
    wanted_ns = 2.0 * elapsed_ns
    if growth_ratio > 0:
        wanted_ns = min(wanted_ns, _GROWTH_RATIO * elapsed_ns / growth_ratio)
    return int(max(pace.poll_busy_ns, min(pace.poll_idle_ns, wanted_ns)))
