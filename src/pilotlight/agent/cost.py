"""What collecting costs a process now, as its own meters tell it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pilotlight.tier import coverage_of


class Meter:
    """Asked once a batch: the sampler's CPU time is that since it was asked last."""

    def __init__(self) -> None:
        self._before = (0, 0, 0)

    def read(self, live: Mapping[str, Any]) -> dict[str, object]:
        """Ratios; a key is absent while it is not known."""
        return {**self._sampler(live["sampler"]), **_device(live["gpu"])}

    def _sampler(self, sampler: Mapping[str, int]) -> dict[str, object]:
        now = sampler["time_ns"], sampler["cpu_ns"], sampler["passes"]
        time_ns, cpu_ns, passes = (
            late - early for late, early in zip(now, self._before, strict=True)
        )
        is_first = not self._before[0]
        self._before = now
        if is_first or time_ns <= 0:
            return {}
        return {
            "sampler_ratio": round(cpu_ns / time_ns, 6),
            "rate_hz": round(passes * 1e9 / time_ns, 2),
        }


def _device(counters: Mapping[str, float]) -> dict[str, object]:
    found = coverage_of(0, 0, None, counters)
    if found is None:
        return {}
    told: dict[str, object] = {
        "tier": found.tier,
        "launches_ratio": found.launches_ratio,
        "records_ratio": found.records_ratio,
        "spent_ratio": found.spent_ratio,
        "overhead_low": found.overhead_low,
        "overhead_high": found.overhead_high,
    }
    return {name: value for name, value in told.items() if value is not None}
