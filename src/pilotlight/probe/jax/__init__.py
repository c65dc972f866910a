"""The adapter of JAX: steps, compilations, transfers, device memory, facts."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from pilotlight.probe.adapter import Adapter


def install(adapter: Adapter, jax: Any) -> None:
    from pilotlight.probe.jax import compilation, facts, memory, ranks, steps, transfers
    from pilotlight.probe.parts import install_parts

    install_parts(adapter, jax, (steps, compilation, transfers, memory, ranks, facts))
