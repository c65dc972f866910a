"""Backward by module, in two steps a second.

A module's backward begins when the gradient of what it returned is there, and ends when the next
module's begins or the whole backward is over. Where branches run side by side the time goes to the
one that began last. The nodes of autograd's graph call us back, some microseconds each.
"""

from __future__ import annotations

from _thread import get_ident

from pilotlight import _probe
from pilotlight.probe.phases import MODULE
from pilotlight.probe.torch.node import first_node

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from pilotlight.probe.adapter import Adapter

MOST_MODULES = 256
_DEEPEST = 2


class Backward:
    """Looks at what modules return in a step that is chosen for it."""

    def __init__(
        self,
        adapter: Adapter,
        engine: Any,
        name: Callable[[Any], str],
        wrappers: Callable[[Any], int],
    ) -> None:
        self._adapter = adapter
        self._engine = engine
        self._name = name
        self._wrappers = wrappers
        # By thread, of the outermost call under way: depth, module, node.
        self._returned: dict[int, list[tuple[int, Any, Any]]] = {}
        self._open: tuple[str, int] | None = None
        self._is_armed = False
        self._on_end = adapter.guarded(self._ends)

    def returned(self, depth: int, module: Any, result: Any) -> None:
        """Inner modules come before the one that called them, which has depth 0 at last."""
        if depth:
            inside = self._returned.setdefault(get_ident(), [])
            node = first_node(result) if depth <= _DEEPEST else None
            # What only passes a tensor on has no backward of its own.
            if node is not None and len(inside) < MOST_MODULES and not _holds(inside, depth, node):
                inside.append((depth, module, node))
            return
        inside = self._returned.pop(get_ident(), [])
        node = first_node(result)
        if node is None:
            return
        top = 1 + self._wrappers(module)
        self._open, self._is_armed = None, False
        for _, part, of_part in [each for each in inside if each[0] == top] or [(0, module, node)]:
            of_part.register_prehook(self._at(f"{self._name(part)} backward"))

    def _at(self, name: str) -> Callable[..., object]:
        def begins(*_: Any) -> None:
            now = _probe.ticks()
            self._close(now)
            self._open = name, now
            if not self._is_armed:
                self._is_armed = True
                self._engine.queue_callback(self._on_end)

        return self._adapter.guarded(begins)

    def _ends(self) -> None:
        self._is_armed = False
        self._close(_probe.ticks())

    def _close(self, now: int) -> None:
        if self._open is not None:
            name, start = self._open
            self._open = None
            _probe.span(name, MODULE, start, now)


def _holds(inside: list[tuple[int, Any, Any]], depth: int, node: Any) -> bool:
    return any(held is node and at == depth for at, _, held in inside)
