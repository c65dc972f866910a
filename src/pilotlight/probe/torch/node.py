"""Nodes of autograd's graph."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_MOST_LOOKED_AT = 64


def first_node(output: Any) -> Any:
    """The node of the first tensor in what a module returned that has one."""
    waiting = [output]
    for _ in range(_MOST_LOOKED_AT):
        if not waiting:
            return None
        item = waiting.pop()
        if isinstance(item, dict):
            waiting.extend(item.values())
        elif isinstance(item, (list, tuple)):
            waiting.extend(item)
        else:
            node = getattr(item, "grad_fn", None)
            if node is not None:
                return node
    return None
