"""A few of many series: such as differ from the others, and such as stand for them."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median

UNLIKE_RATIO = 0.25
"""Of those that are chosen, how many are the least like the others."""


def representatives(means: Sequence[float], most: int, always: Sequence[int] = ()) -> list[int]:
    """Places in `means`, at most so many: a quarter of them the furthest from the middle, the rest
    evenly from low to high, so that their median is that of all. `always` are among them."""
    if len(means) <= most:
        return list(range(len(means)))
    middle = median(means)
    furthest = sorted(range(len(means)), key=lambda i: -abs(means[i] - middle))
    chosen = [*always, *furthest[: max(1, round(UNLIKE_RATIO * most))]]
    chosen = list(dict.fromkeys(chosen))[:most]
    taken = set(chosen)
    rest = sorted((i for i in range(len(means)) if i not in taken), key=lambda i: means[i])
    room = most - len(chosen)
    chosen += [rest[(2 * n + 1) * len(rest) // (2 * room)] for n in range(room)]
    return sorted(chosen)
