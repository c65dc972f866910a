"""Transfers between host and devices, and waiting for a device."""

from __future__ import annotations

from pilotlight import _probe
from pilotlight.probe.phases import RANGE, SYNC

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from pilotlight.probe.adapter import Adapter

CALLS = {"device_put": RANGE, "device_get": RANGE, "block_until_ready": SYNC}


def install(adapter: Adapter, jax: Any) -> None:
    def wrapped(name: str, kind: int) -> Callable[[Any], _probe.Wrapped]:
        return lambda call: _probe.range_call(call, adapter.fault, f"jax.{name}", kind)

    for name, kind in CALLS.items():
        adapter.replace(jax, name, wrapped(name, kind))
