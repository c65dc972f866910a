"""How many bytes of detail all recordings of this agent may have together."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

_SMALLEST_BYTES = 1 << 20
_GROW_AGAIN_NS = 60_000_000_000


class Droppable(Protocol):
    """A recording from the point of view of the budget."""

    @property
    def disk_bytes(self) -> int: ...

    @property
    def oldest_ns(self) -> int | None: ...

    def drop_oldest(self) -> bool: ...


class DiskBudget:
    """Drops the oldest chunk of all first. A full disk makes the budget smaller for a while."""

    def __init__(self, budget_bytes: int) -> None:
        self.budget_bytes = budget_bytes
        self.limit_bytes = budget_bytes
        self.shrunk = 0
        self._shrunk_ns = 0

    def enforce(self, recordings: Sequence[Droppable], now_ns: int) -> None:
        """Brings all together under the limit, with room for the next commit."""
        if self.limit_bytes < self.budget_bytes and now_ns - self._shrunk_ns > _GROW_AGAIN_NS:
            self.limit_bytes = min(self.budget_bytes, self.limit_bytes * 2)
            self._shrunk_ns = now_ns
        reserve = min(1 << 20, self.limit_bytes // 16)
        used = sum(recording.disk_bytes for recording in recordings)
        while used > self.limit_bytes - reserve and self._drop_oldest(recordings):
            used = sum(recording.disk_bytes for recording in recordings)

    def make_room(self, recordings: Sequence[Droppable], now_ns: int) -> bool:
        """The disk is full: drops the oldest chunk and asks for less; False if none is left."""
        if not self._drop_oldest(recordings):
            return False
        used = sum(recording.disk_bytes for recording in recordings)
        self.limit_bytes = max(_SMALLEST_BYTES, min(self.limit_bytes, used))
        self.shrunk += 1
        self._shrunk_ns = now_ns
        return True

    def _drop_oldest(self, recordings: Sequence[Droppable]) -> bool:
        dated = [(r.oldest_ns, at) for at, r in enumerate(recordings) if r.oldest_ns is not None]
        return bool(dated) and recordings[min(dated)[1]].drop_oldest()
