"""Calls that make the host wait for a device, by the line that makes them.

`.item()` and its like wait only for tensors elsewhere than on the CPU; those on the CPU are not
told. The stack of a wait is that of the samples taken inside its span.
"""

from __future__ import annotations

import sys

from pilotlight import _probe
from pilotlight.probe.phases import SYNC

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from pilotlight.probe.adapter import Adapter

METHODS = ("item", "tolist", "cpu", "numpy")
_DEVICES = ("cuda", "xpu")


def install(adapter: Adapter, torch: Any) -> None:
    # On the CPU nothing waits: a program that has no device pays nothing.
    if has_device(torch):
        install_methods(adapter, torch)
        install_devices(adapter, torch)


def install_methods(adapter: Adapter, torch: Any) -> None:
    places = _Places()

    def wrapped(name: str) -> Callable[[Any], _probe.Wrapped]:
        def before(tensor: Any, *_: Any, **__: Any) -> tuple[str, int] | None:
            if tensor.is_cpu or tensor.is_meta:
                return None
            return places.name(f"Tensor.{name}"), _probe.ticks()

        return lambda call: _probe.around_call(call, adapter.fault, before, _after)

    for name in METHODS:
        adapter.replace(torch.Tensor, name, wrapped(name))


def install_devices(adapter: Adapter, torch: Any) -> None:
    places = _Places()

    def wrapped(label: str) -> Callable[[Any], _probe.Wrapped]:
        def before(*_: Any, **__: Any) -> tuple[str, int]:
            return places.name(label), _probe.ticks()

        return lambda call: _probe.around_call(call, adapter.fault, before, _after)

    for device in _DEVICES:
        module = getattr(torch, device, None)
        for owner, label in (
            (module, device),
            (getattr(module, "Stream", None), f"{device}.Stream"),
            (getattr(module, "Event", None), f"{device}.Event"),
        ):
            if owner is not None:
                adapter.replace(owner, "synchronize", wrapped(f"{label}.synchronize"))


def _after(token: tuple[str, int], _: Any) -> None:
    name, start = token
    _probe.span(name, SYNC, start, _probe.ticks())


def has_device(torch: Any) -> bool:
    """Whether this torch was built for one; does not touch its driver."""
    return any(getattr(torch.version, name, None) for name in ("cuda", "hip", "xpu"))


class _Places:
    """ "Tensor.item at train.py:42", made once for each line."""

    def __init__(self) -> None:
        self._names: dict[tuple[str, Any, int], str] = {}

    def name(self, what: str) -> str:
        # 0 is this, 1 the hook; nothing of ours is between it and the program.
        frame = sys._getframe(2)
        key = (what, frame.f_code, frame.f_lineno)
        name = self._names.get(key)
        if name is None:
            file = frame.f_code.co_filename.rsplit("/", 1)[-1]
            name = f"{what} at {file}:{frame.f_lineno}"
            if len(self._names) < 4096:
                self._names[key] = name
        return name
