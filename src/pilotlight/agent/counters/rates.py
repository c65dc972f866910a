"""Counts that only grow, turned into values a second."""

from __future__ import annotations

from collections.abc import Hashable


class Rates:
    """Remembers the last count of each key. A count that went back (wrapped, reset, another device
    of the same name) gives no rate once, rather than a wrong one."""

    def __init__(self) -> None:
        self._before: dict[Hashable, tuple[int, float]] = {}

    def per_second(self, key: Hashable, time_ns: int, count: float) -> float | None:
        before = self._before.get(key)
        self._before[key] = (time_ns, count)
        if before is None or time_ns <= before[0] or count < before[1]:
            return None
        return (count - before[1]) * 1e9 / (time_ns - before[0])

    def forget_older_than(self, time_ns: int) -> None:
        """Lets go of keys that did not come again."""
        self._before = {key: value for key, value in self._before.items() if value[0] >= time_ns}
