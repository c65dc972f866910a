"""Which frameworks have an adapter, and what they have told so far."""

from __future__ import annotations

import sys

from pilotlight import _probe
from pilotlight.probe.imports import watch

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from types import ModuleType

    from pilotlight.probe.adapter import Adapter
    from pilotlight.probe.identity import Identity

_ROOTS = ("torch", "jax", "vllm", "sglang")

_adapters: dict[str, Adapter] = {}
_identity: Identity | None = None
_seconds: list[Callable[..., object]] = []


def watch_imports(identity: Identity) -> None:
    """From here on a framework that is imported gets its adapter; nothing is imported for it."""
    global _identity
    first = _identity is None
    _identity = identity
    if first:
        for root in _ROOTS:
            watch.when_imported(root, _imported)
    else:
        tell()


def adapter(name: str) -> Adapter:
    """The adapter of that name, made when it is first asked for."""
    from pilotlight.probe.adapter import Adapter

    if name not in _adapters:
        _adapters[name] = Adapter(name, tell)
    return _adapters[name]


def each_second(mine: Adapter, call: Callable[[], object]) -> None:
    """Calls it after a step, at most once a second, until the adapter is removed."""
    guarded = mine.guarded(call)
    _seconds.append(guarded)
    mine.when_removed(lambda: _seconds.remove(guarded))
    _probe.each_second(_second)


def _second() -> None:
    for call in tuple(_seconds):
        call()


def tell() -> None:
    """What adapters know goes into the identity, where the agent reads it."""
    from pilotlight.probe.identity import to_json

    if _identity is None:
        return
    # As text: the identity's JSON is written by hand and is flat.
    told = {
        f"{each.name}.{key}": value
        for each in _adapters.values()
        for key, value in each.told().items()
    }
    _identity.facts = told
    _probe.set_identity(to_json(_identity))


def _imported(module: ModuleType) -> None:
    """Never raises: it runs inside the program's import statement."""
    name = module.__name__
    mine = adapter("serving" if name in ("vllm", "sglang") else name)
    if mine.is_off:
        return
    try:
        package = "serving" if mine.name == "serving" else name
        # Not importlib: it would cost a process without frameworks two milliseconds.
        __import__(f"pilotlight.probe.{package}")
        sys.modules[f"pilotlight.probe.{package}"].install(mine, sys.modules.get(name, module))
        tell()
    except Exception as error:
        mine.fault(error)
