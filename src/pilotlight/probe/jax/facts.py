"""What one would ask first about a job: versions, devices, settings."""

from __future__ import annotations

import os

from pilotlight.probe.adapters import each_second, tell

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from pilotlight.probe.adapter import Adapter

PREFIXES = ("JAX_", "XLA_", "NCCL_", "CUDA_")
_SECRET = ("TOKEN", "SECRET", "KEY", "PASSWORD")


def install(adapter: Adapter, jax: Any) -> None:
    adapter.facts["version"] = str(jax.__version__)
    adapter.facts["environment"] = [
        f"{name}={value[:80]}"
        for name, value in sorted(os.environ.items())
        if name.startswith(PREFIXES) and not any(word in name for word in _SECRET)
    ][:32]
    is_told = [False]

    def look() -> None:
        # Asking for devices starts the backend, so not before the job itself has stepped.
        if is_told[0]:
            return
        is_told[0] = True
        adapter.facts["backend"] = jax.default_backend()
        adapter.facts["devices"] = jax.local_device_count()
        adapter.facts["processes"] = jax.process_count()
        adapter.facts["x64"] = bool(jax.config.jax_enable_x64)
        adapter.facts["matmul_precision"] = str(jax.config.jax_default_matmul_precision)
        tell()

    each_second(adapter, look)
