"""The adapter of PyTorch: steps, phases, modules, loaders, collectives, compilations, facts."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from pilotlight.probe.adapter import Adapter


def install(adapter: Adapter, torch: Any) -> None:
    from pilotlight.probe.parts import install_parts
    from pilotlight.probe.torch import (
        allocator,
        annotation,
        checkpoint,
        collectives,
        compilation,
        ddp,
        facts,
        loader,
        modules,
        steps,
        synchronization,
    )

    parts = (steps, modules, loader, annotation, collectives, ddp, checkpoint, synchronization,
             allocator, facts, compilation)  # fmt: skip
    install_parts(adapter, torch, parts)
