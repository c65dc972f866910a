"""What collecting costs a process now, as its own meters tell it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pilotlight.tier import coverage_of

# Beyond it a collector takes the whole batch for broken; only a program's own counters get there.
_MOST_RATIO = 1e6


class Meter:
    """Hears every record in which the sampler says what it took since the one before."""

    def __init__(self) -> None:
        self._since_ns = self._until_ns = 0
        self._cpu_ns = self._passes = 0

    def add(self, time_ns: Sequence[int], cpu_ns: Sequence[int], passes: Sequence[int]) -> None:
        """In order of time. When the time of the first record of all began is not known."""
        if not time_ns:
            return
        begin = 0 if self._until_ns else 1
        self._since_ns = self._since_ns or time_ns[0]
        self._until_ns = time_ns[-1]
        self._cpu_ns += sum(cpu_ns[begin:])
        self._passes += sum(passes[begin:])

    def read(self, gpu: Mapping[str, float]) -> dict[str, object]:
        """Ratios since it was asked last; a key is absent while it is not known."""
        return {**self._sampler(), **_device(gpu)}

    def _sampler(self) -> dict[str, object]:
        elapsed_ns = self._until_ns - self._since_ns
        if elapsed_ns <= 0:
            return {}
        told: dict[str, object] = {
            "sampler_ratio": round(self._cpu_ns / elapsed_ns, 6),
            "rate_hz": round(self._passes * 1e9 / elapsed_ns, 2),
        }
        self._since_ns, self._cpu_ns, self._passes = self._until_ns, 0, 0
        return told


def _device(counters: Mapping[str, float]) -> dict[str, object]:
    found = coverage_of(0, 0, None, counters)
    if found is None:
        return {}
    told: dict[str, str | float | None] = {
        "tier": found.tier,
        "launches_ratio": found.launches_ratio,
        "records_ratio": found.records_ratio,
        "spent_ratio": found.spent_ratio,
        "overhead_low": found.overhead_low,
        "overhead_high": found.overhead_high,
    }
    return {
        name: value
        for name, value in told.items()
        if isinstance(value, str) or (value is not None and abs(value) <= _MOST_RATIO)
    }
