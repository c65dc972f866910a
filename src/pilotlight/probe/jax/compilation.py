"""What JAX traces and compiles, and what its compilation cache finds."""

from __future__ import annotations

import time

from pilotlight import _probe
from pilotlight.probe.jax.signature import (
    UNKNOWN,
    Signature,
    difference,
    nearest,
    signature_of,
)
from pilotlight.probe.phases import COMPILE

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from pilotlight.probe.adapter import Adapter

DURATIONS = {
    "/jax/core/compile/jaxpr_trace_duration": "trace",
    "/jax/core/compile/jaxpr_to_mlir_module_duration": "lower",
    "/jax/core/compile/backend_compile_duration": "compile",
}
_EVENTS = ("/jax/compilation_cache/cache_hits", "/jax/compilation_cache/cache_misses")
_SHORTEST_S = 0.0005
_MOST_FUNCTIONS = 4096
_MOST_SIGNATURES = 8


class Listener:
    """jax.monitoring tells durations when they are over: their start is reckoned back."""

    def __init__(self, tree_util: Any) -> None:
        self._tree_util = tree_util
        self._ticks, self._ns = _probe.ticks(), time.monotonic_ns()
        # How often, and for what.
        self._compiled: dict[str, tuple[int, list[Signature]]] = {}

    def duration(self, event: str, seconds: float, **details: Any) -> None:
        what = DURATIONS.get(event)
        if what is None or seconds < _SHORTEST_S:
            return
        function = str(details.get("fun_name") or "")
        end, now_ns = _probe.ticks(), time.monotonic_ns()
        ticks_a_second = (end - self._ticks) / max((now_ns - self._ns) / 1e9, 1e-9)
        start = end - int(seconds * ticks_a_second)
        _probe.span(f"{what} {function}".strip(), COMPILE, start, end)
        if what == "compile" and function:
            self._compilation(function)

    def _compilation(self, function: str) -> None:
        count, known = self._compiled.get(function, (0, []))
        now = self._signature(function)
        if count:
            before = nearest(known, now) if now is not None else None
            reason = UNKNOWN if before is None or now is None else difference(before, now)
            _probe.mark(f"recompile {function}: {reason}", count + 1)
        if count or len(self._compiled) < _MOST_FUNCTIONS:
            newest = [*known, now][-_MOST_SIGNATURES:] if now is not None else known
            self._compiled[function] = count + 1, newest

    def _signature(self, function: str) -> Signature | None:
        """Of the call that is compiled for, where it is one of a function that we know."""
        call = _probe.call_under_way()
        if call is None or str(getattr(call[0], "__name__", "?")) not in function:
            return None
        return signature_of(self._tree_util, call[1], call[2])

    def event(self, event: str, **_: Any) -> None:
        if event in _EVENTS:
            _probe.mark(event.rsplit("/", 1)[-1], 1)


def install(adapter: Adapter, jax: Any) -> None:
    listener = Listener(jax.tree_util)
    duration, event = adapter.guarded(listener.duration), adapter.guarded(listener.event)
    monitoring = jax.monitoring
    monitoring.register_event_duration_secs_listener(duration)
    monitoring.register_event_listener(event)

    def remove() -> None:
        from importlib import import_module

        private = import_module("jax._src.monitoring")
        private.unregister_event_duration_listener(duration)
        private.unregister_event_listener(event)

    adapter.when_removed(remove)
