"""The calls that take most of the time, as a tree of few lines."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from pilotlight.report.flame import Flame

_LEAST_RATIO = 0.05
_MOST_CALLS = 24


@dataclass(frozen=True)
class Call:
    """`functions` call each other and nothing else that takes long; the innermost is the last."""

    depth: int
    functions: tuple[str, ...]
    file: str
    self_ns: int
    total_ns: int


def call_tree(flame: Flame, threads: frozenset[str], without: frozenset[int]) -> list[Call]:
    """What of the tree takes a twentieth of the time or more, callers first; none if it is flat."""
    numbers = [number for number, name in enumerate(flame.threads) if name in threads]
    chosen = np.isin(flame.entry_thread, numbers) & ~np.isin(flame.entry_process, list(without))
    self_ns = flame.self_ns(chosen)
    total_ns = flame.total_ns(self_ns)
    children: dict[int, list[int]] = {}
    # Unknown stacks end in the root itself.
    least_ns = _LEAST_RATIO * (total_ns[0] - self_ns[0])
    for node in range(1, flame.parents.size):
        if total_ns[node] and total_ns[node] >= least_ns:
            children.setdefault(int(flame.parents[node]), []).append(node)
    found = [
        Call(
            depth=depth,
            functions=tuple(flame.functions[int(flame.function_of[one])].name for one in nodes),
            file=flame.functions[int(flame.function_of[nodes[-1]])].file,
            self_ns=int(self_ns[nodes[-1]]),
            total_ns=int(total_ns[nodes[-1]]),
        )
        for depth, nodes in _walk(children, total_ns.tolist(), least_ns)
    ]
    return found if any(call.depth for call in found) else []


def _walk(
    children: dict[int, list[int]], total_ns: list[int], least_ns: float
) -> Iterator[tuple[int, list[int]]]:
    """Depth and nodes of each line; the largest of the same depth first."""
    pending = [(0, node) for node in sorted(children.get(0, []), key=lambda one: total_ns[one])]
    left = _MOST_CALLS
    while pending and left:
        depth, node = pending.pop()
        nodes = [node]
        below = children.get(node, [])
        # Callers that do no more than pass on share the line of what they call.
        while len(below) == 1 and total_ns[node] - total_ns[below[0]] < least_ns / 2:
            node = below[0]
            nodes.append(node)
            below = children.get(node, [])
        yield depth, nodes
        left -= 1
        pending += [(depth + 1, one) for one in sorted(below, key=lambda one: total_ns[one])]
