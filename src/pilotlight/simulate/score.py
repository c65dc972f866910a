"""What waits for what in a simulated job, and when everything happens."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, field

import numpy as np

from pilotlight.trace.trace import Float64


@dataclass
class Score:
    """Nodes have a length and others that must end before. Those of one rank are added in an order
    in which each comes after what it waits for; only meetings join ranks."""

    ranks: int
    length_us: list[float] = field(default_factory=list)
    before: list[tuple[int, ...]] = field(default_factory=list)
    program: list[list[int]] = field(default_factory=list)
    _meetings: dict[Hashable, int] = field(default_factory=dict)
    _arrivals: dict[int, list[int]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.program = [[] for _ in range(self.ranks)]

    def add(self, rank: int, length_us: float, *before: int) -> int:
        number = len(self.length_us)
        self.length_us.append(length_us)
        self.before.append(before)
        self.program[rank].append(number)
        return number

    def meet(self, key: Hashable, arrival: int, length_us: float) -> int:
        """The node that begins when all have come that ever come to this key."""
        number = self._meetings.get(key)
        if number is None:
            number = self._meetings[key] = len(self.length_us)
            self.length_us.append(length_us)
            self.before.append(())
            self._arrivals[number] = []
        self._arrivals[number].append(arrival)
        return number

    def times_us(self) -> tuple[Float64, Float64]:
        """When each node begins and ends."""
        begins: list[float] = [0.0] * len(self.length_us)
        ends: list[float] = [-1.0] * len(self.length_us)
        missing = {number: len(rows) for number, rows in self._arrivals.items()}
        meets: dict[int, list[int]] = {}
        for number, rows in self._arrivals.items():
            for row in rows:
                meets.setdefault(row, []).append(number)
        places = [0] * self.ranks
        left = sum(map(len, self.program))
        while left:
            before = left
            for rank, nodes in enumerate(self.program):
                place = places[rank]
                while place < len(nodes):
                    node = nodes[place]
                    begin = 0.0
                    for other in self.before[node]:
                        end = ends[other]
                        if end < 0:
                            begin = -1.0
                            break
                        begin = max(begin, end)
                    if begin < 0:
                        break
                    begins[node] = begin
                    ends[node] = begin + self.length_us[node]
                    place += 1
                    for meeting in meets.get(node, ()):
                        missing[meeting] -= 1
                        if not missing[meeting]:
                            last = max(ends[row] for row in self._arrivals[meeting])
                            begins[meeting] = last
                            ends[meeting] = last + self.length_us[meeting]
                left -= place - places[rank]
                places[rank] = place
            if left == before:
                raise RuntimeError("the simulated ranks wait for each other in a circle")
        return np.array(begins), np.array(ends)
