"""Which batches have been taken: each exactly once, however often it is sent."""

from __future__ import annotations

from dataclasses import dataclass, field

Key = tuple[str, str, int]
"""Tenant, agent and epoch."""

_MOST_ABOVE = 65_536


@dataclass
class _Line:
    floor: int = 0  # all up to here are settled
    above: set[int] = field(default_factory=set)


class Seen:
    """`lowest` is the first sequence that the agent will still send: what lies before is settled,
    taken or given up."""

    def __init__(self) -> None:
        self._lines: dict[Key, _Line] = {}

    def __contains__(self, one: tuple[Key, int]) -> bool:
        key, sequence = one
        line = self._lines.get(key)
        return line is not None and (sequence <= line.floor or sequence in line.above)

    def add(self, key: Key, sequence: int, lowest: int) -> bool:
        """False: it was taken before."""
        line = self._lines.setdefault(key, _Line())
        if sequence <= line.floor or sequence in line.above:
            return False
        line.above.add(sequence)
        self._settle(line, min(lowest, sequence) - 1)
        return True

    def remove(self, key: Key, sequence: int) -> None:
        """It was not taken after all; only for one above the floor."""
        line = self._lines.get(key)
        if line is None:
            return
        if sequence in line.above:
            line.above.discard(sequence)
        elif sequence == line.floor:
            line.floor -= 1

    def recall(self, key: Key, first: int, last: int) -> None:
        """All of a run were taken before."""
        line = self._lines.setdefault(key, _Line())
        if first <= line.floor + 1:
            line.floor = max(line.floor, last)
        else:
            line.above.update(range(first, last + 1))
        self._settle(line, 0)

    def fits(self, key: Key, sequence: int, lowest: int) -> bool:
        """Whether there is room to remember it; a well-meaning agent never gets here."""
        line = self._lines.get(key)
        if line is None or len(line.above) < _MOST_ABOVE or sequence == line.floor + 1:
            return True
        return sum(one >= lowest for one in line.above) < _MOST_ABOVE

    def _settle(self, line: _Line, at_least: int) -> None:
        if at_least > line.floor:
            line.above = {sequence for sequence in line.above if sequence > at_least}
            line.floor = at_least
        while line.floor + 1 in line.above:
            line.floor += 1
            line.above.discard(line.floor)
