"""Which frameworks have an adapter, and what they have told so far."""

from __future__ import annotations

import sys

from pilotlight import _probe

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from types import ModuleType

    from pilotlight.probe.adapter import Adapter
    from pilotlight.probe.identity import Identity

_adapters: dict[str, Adapter] = {}
_identity: Identity | None = None
_seconds: list[Callable[..., object]] = []


def belong_to(identity: Identity) -> None:
    """To this process, whose identity says what adapters know; a forked child has its own."""
    global _identity
    _identity = identity
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


def number_rank(rank: int, world_size: int) -> None:
    """The framework has joined its ranks; what a launcher said in the environment stays."""
    if _identity is None or (_identity.rank is not None and not _is_spawned(rank, world_size)):
        return
    if _identity.rank is not None:
        _identity.local_rank = None  # of the task too
    _identity.rank, _identity.world_size, _identity.role = rank, world_size, "rank"
    tell()


def _is_spawned(rank: int, world_size: int) -> bool:
    """Whether the environment speaks of another process, which started this one and others like it;
    what is forked by a rank says the same as that rank."""
    assert _identity is not None
    known = (_identity.rank, _identity.world_size)
    return _identity.role == "child" and known != (rank, world_size)


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


def adapt(module: ModuleType) -> None:
    """Puts the adapter of a framework in; called again when it is loaded anew. Never raises."""
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
