"""What fast steps waited in reductions of gradients that were not told, reckoned from those that
were: the adapter tells every n-th of them (probe/torch/ddp.py), and numbers them all."""

from __future__ import annotations

from bisect import bisect_right
from collections import deque
from collections.abc import Sequence
from statistics import median
from typing import NamedTuple

REDUCTION = "ddp.all_reduce"
_REMEMBERED = 64
_MOST_WAITING = 4096
_MOST_REDUCERS = 16
# A step that something else held up says nothing of the others.
_USUAL_RATIO = 2.0


class Told(NamedTuple):
    end_ns: int
    sequence: int
    wait_ns: int


class Step(NamedTuple):
    """`busy_ns`: what it computes and waits, as far as nobody tells them apart."""

    number: int
    start_ns: int
    duration_ns: int
    busy_ns: int


class _Seen(NamedTuple):
    step: Step
    sequence: int
    wait_ns: int


class _Reducer:
    """One reducer of a process; its reductions of the latest steps that were told."""

    def __init__(self) -> None:
        self.waiting: deque[Told] = deque(maxlen=_MOST_WAITING)
        self._seen: deque[_Seen] = deque(maxlen=_REMEMBERED)

    def see(self, told: Told, step: Step) -> None:
        if self._seen and told.sequence <= self._seen[-1].sequence:
            self._seen.clear()  # another reducer, which begins to count anew
        self._seen.append(_Seen(step, told.sequence, told.wait_ns))

    def untold(self) -> tuple[float, float]:
        """How many reductions are untold of a step of which none is told, and of one with some."""
        if len(self._seen) < 2:
            return 0.0, 0.0
        first, last = self._seen[0], self._seen[-1]
        all_of_them = last.sequence - first.sequence
        steps = last.step.number - first.step.number
        told = len(self._seen) - 1
        told_steps = len({one.step.number for one in self._seen} - {first.step.number})
        if all_of_them <= told or steps < 1:
            return 0.0, 0.0
        a_step = all_of_them / steps
        if a_step <= 1 or steps <= told_steps:
            return (all_of_them - told) / max(1, steps - told_steps), 0.0
        return a_step, max(0.0, a_step - told / max(1, told_steps))

    def usual_ratio(self) -> float:
        """The part of a step that it waits in one reduction."""
        usual_ns = _USUAL_RATIO * median(one.step.duration_ns for one in self._seen)
        usual = [one for one in self._seen if one.step.duration_ns <= usual_ns]
        busy_ns = sum(one.step.busy_ns for one in usual)
        return min(1.0, sum(one.wait_ns for one in usual) / busy_ns) if busy_ns else 0.0


class Reductions:
    """Of one process."""

    def __init__(self) -> None:
        self._reducers: dict[tuple[int, int], _Reducer] = {}

    def add(self, group: int, size_bytes: int, told: Told) -> None:
        """Two reducers of a process may share a group; their gradients are of different size."""
        key = group, size_bytes
        if key not in self._reducers:
            if len(self._reducers) >= _MOST_REDUCERS:
                return
            self._reducers[key] = _Reducer()
        self._reducers[key].waiting.append(told)

    def untold_ratios(self, steps: Sequence[Step]) -> list[float]:
        """Of each of these steps, in the order of time: the part of what it is busy that it waits
        in reductions which are not told."""
        found = [0.0] * len(steps)
        for reducer in self._reducers.values():
            told_in = _told_in(reducer, steps)
            without, beside = reducer.untold()
            if not without and not beside:
                continue
            ratio = reducer.usual_ratio()
            for index in range(len(steps)):
                found[index] += ratio * (beside if index in told_in else without)
        return [min(1.0, ratio) for ratio in found]


def _told_in(reducer: _Reducer, steps: Sequence[Step]) -> set[int]:
    """Which of the steps have one that is told; later ones wait for their step."""
    found = set()
    starts = [step.start_ns for step in steps]
    last_end_ns = max((step.start_ns + step.duration_ns for step in steps), default=0)
    while reducer.waiting and reducer.waiting[0].end_ns < last_end_ns:
        told = reducer.waiting.popleft()
        index = bisect_right(starts, told.end_ns) - 1
        if index >= 0 and told.end_ns <= starts[index] + steps[index].duration_ns:
            found.add(index)
            reducer.see(told, steps[index])
    return found
