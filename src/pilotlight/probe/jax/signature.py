"""What a jitted function was called with, as far as a new program is compiled for it."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

MOST_ARGUMENTS = 512
_LONGEST = 60
UNKNOWN = "its arguments have other shapes or types"
SAME = "its arguments are alike: options, context or the function itself changed"

Signature = dict[str, tuple[str, str, str]]
"""By argument: what it is compiled for, where it lies, and its value if it is no array."""


def signature_of(tree_util: Any, arguments: tuple[Any, ...], named: dict[str, Any]) -> Signature:
    leaves, _ = tree_util.tree_flatten_with_path((arguments, named))
    return {_place(tree_util, path): _described(leaf) for path, leaf in leaves[:MOST_ARGUMENTS]}


def _place(tree_util: Any, path: tuple[Any, ...]) -> str:
    # The first key tells positional from named arguments, which the second does as well.
    return str(tree_util.keystr(path[1:]))


def _described(leaf: Any) -> tuple[str, str, str]:
    shape, dtype = getattr(leaf, "shape", None), getattr(leaf, "dtype", None)
    if shape is None or dtype is None:
        return type(leaf).__name__, "", repr(leaf)[:_LONGEST]
    weak = " (weak)" if getattr(leaf, "weak_type", False) else ""
    sizes = ",".join(str(size) for size in shape)
    return f"{dtype}[{sizes}]{weak}", str(getattr(leaf, "sharding", "")), ""


def nearest(known: Sequence[Signature], now: Signature) -> Signature | None:
    """Of those that there are programs for the one that differs least, of several the newest: what
    comes back in turn (the last batch of an epoch) is not why there is another one."""
    return min(reversed(known), key=lambda one: _differences(one, now), default=None)


def _differences(before: Signature, now: Signature) -> int:
    return sum(before.get(place) != now.get(place) for place in before.keys() | now.keys())


def difference(before: Signature, now: Signature) -> str:
    """Why the second needs another program than the first, in a line."""
    if before.keys() != now.keys():
        added, gone = sorted(now.keys() - before.keys()), sorted(before.keys() - now.keys())
        told = [f"{what} argument {names[0]}" for what, names in (("new", added), ("no", gone))
                if names]  # fmt: skip
        return f"other arguments: {', '.join(told)}"
    for kind in range(3):
        other = [place for place in now if now[place][kind] != before[place][kind]]
        if other:
            place = other[0]
            more = f", and {len(other) - 1} more" if len(other) > 1 else ""
            return f"argument {place} is {now[place][kind]}, was {before[place][kind]}{more}"
    return SAME
