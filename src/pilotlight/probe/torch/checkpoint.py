"""Saving and loading checkpoints."""

from __future__ import annotations

from pilotlight import _probe
from pilotlight.probe.imports import watch
from pilotlight.probe.phases import CHECKPOINT

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from pilotlight.probe.adapter import Adapter


def install(adapter: Adapter, torch: Any) -> None:
    def phase(function: Any) -> _probe.Wrapped:
        return _probe.phase_call(function, adapter.fault, CHECKPOINT)

    def shared(name: str) -> Callable[[Any], Any]:
        return lambda _: vars(torch.serialization)[name]

    # No compiler reads these: it breaks the graph there, and compiles again if it finds another
    # object in the place next time. So they stay.
    for name in ("save", "load"):
        adapter.replace(torch.serialization, name, phase, stays=True)
        # One object under both names, as it was.
        adapter.replace(torch, name, shared(name), stays=True)

    def sharded(module: Any) -> None:
        for name in ("save", "load", "async_save"):
            adapter.replace(module, name, phase, stays=True)

    def safetensors(module: Any) -> None:
        for name in ("save_file", "load_file"):
            adapter.replace(module, name, phase, stays=True)

    watch.when_imported("torch.distributed.checkpoint", adapter.guarded(sharded))
    watch.when_imported("safetensors.torch", adapter.guarded(safetensors))
