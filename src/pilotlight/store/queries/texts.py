"""The texts of names: only of those that an answer has, whatever else the store remembers."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from pilotlight.store.store import Row

# So many fit into what a server takes of one parameter.
_AT_ONCE = 2000
_TEXTS = (
    "SELECT id, any(text) FROM names WHERE tenant = {tenant:String} "
    "AND id IN {ids:Array(UInt64)} GROUP BY id"
)
_STACKS = _TEXTS.replace("AND id", "AND kind = 2 AND id")

Ask = Callable[..., list[Row]]


def texts(ask: Ask, names: Iterable[int]) -> dict[int, str]:
    """By name; `ask` is a Reader's select. Those that are not known are left out."""
    return _told(ask, _TEXTS, names)


def stack_texts(ask: Ask, names: Iterable[int]) -> dict[int, str]:
    """The same of stacks alone."""
    return _told(ask, _STACKS, names)


def _told(ask: Ask, sql: str, names: Iterable[int]) -> dict[int, str]:
    wanted = sorted(set(names))
    found: dict[int, str] = {}
    for start in range(0, len(wanted), _AT_ONCE):
        rows = ask(sql, ids=wanted[start : start + _AT_ONCE])
        found.update((int(name), text) for name, text in rows)
    return found
