"""How much memory of the devices is in use; the CPU's is not told by JAX."""

from __future__ import annotations

from pilotlight import _probe
from pilotlight.probe.adapters import each_second

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from pilotlight.probe.adapter import Adapter

STATISTICS = {
    "bytes_in_use": "jax.memory_bytes",
    "peak_bytes_in_use": "jax.memory_peak_bytes",
    "num_allocs": "jax.allocations",
}


def install(adapter: Adapter, jax: Any) -> None:
    def look() -> None:
        for device in jax.local_devices()[:16]:
            told = device.memory_stats() or {}
            for key, name in STATISTICS.items():
                if key in told:
                    _probe.counter(f"{name} {device.id}", told[key])

    each_second(adapter, look)
