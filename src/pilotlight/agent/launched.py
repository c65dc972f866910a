"""Device time of a process by the code that launched it: stack, innermost range, kernel."""

from __future__ import annotations

from array import array
from collections import defaultdict
from dataclasses import dataclass

from pilotlight import _drain
from pilotlight.agent.tables import Columns
from pilotlight.recording.schema import ActivityKind
from pilotlight.ship.definitions import UNKNOWN, Definitions

LAUNCHED_NS = 60_000_000_000
"""Longer than the windows of other sums: stacks are many, and where they lie changes slowly."""
NOT_KNOWN = "(launch not known)"
OTHER = "(other)"
_MOST_SUMS = 4096
_SETTLE_NS = 2_000_000_000
_COLUMNS = 8
_FRAMES_LIMIT = 12_000
_KERNEL_LIMIT = 2_000
# Waits and the profiler's own work are no work of the device.
_WORK = (ActivityKind.KERNEL, ActivityKind.MEMCPY, ActivityKind.MEMSET, ActivityKind.GRAPH)

Key = tuple[int, int, int, int, int]
"""Window, stack, range, name, kind."""


@dataclass
class Sum:
    count: int = 0
    total_ns: int = 0
    longest_ns: int = 0


class Launched:
    """Sums since the last time; what has no room of its own is `(other)` of its window."""

    def __init__(self) -> None:
        self._sums: dict[Key, Sum] = {}
        self._is_closed = False

    def close(self) -> None:
        """Nothing comes any more: also windows that are not over are handed out."""
        self._is_closed = True

    def add(self, columns: Columns) -> None:
        """The activities of one commit."""
        rows, left_out_ns = _drain.launched_sums(
            columns["stack"],
            columns["range"],
            columns["name"],
            columns["kind"],
            columns["start_ns"],
            columns["duration_ns"],
            LAUNCHED_NS,
            _MOST_SUMS,
        )
        values = array("q", rows)
        for first in range(0, len(values), _COLUMNS):
            window_ns, stack, range_, name, kind, *numbers = values[first : first + _COLUMNS]
            if kind in _WORK:
                self._sum((window_ns, stack, range_, name, kind), *numbers)
        if left_out_ns and values:
            self._sum((values[0], -1, 0, 0, ActivityKind.KERNEL), 0, left_out_ns, 0)

    def take(
        self, until_ns: int, definitions: Definitions, most: int
    ) -> list[tuple[int, int, str, Sum]]:
        """Of each window that is over the `most` that took longest: begin, kind, the stack with the
        kernel as its innermost line, sums."""
        windows: dict[int, list[tuple[Key, Sum]]] = defaultdict(list)
        rest = {}
        for key, one in self._sums.items():
            if self._is_closed or key[0] + LAUNCHED_NS + _SETTLE_NS <= until_ns:
                windows[key[0]].append((key, one))
            else:
                rest[key] = one
        self._sums = rest
        made: list[tuple[int, int, str, Sum]] = []
        for window_ns, rows in windows.items():
            rows.sort(key=lambda row: -row[1].total_ns)
            texts: dict[tuple[int, str], Sum] = {}
            for place, (key, one) in enumerate(rows):
                text = _text(key, definitions) if place < most and key[1] >= 0 else OTHER
                kind = key[4] if text != OTHER else int(ActivityKind.KERNEL)
                _add(texts.setdefault((kind, text), Sum()), one.count, one.total_ns, one.longest_ns)
            made += [(window_ns, kind, text, one) for (kind, text), one in texts.items()]
        return made

    def _sum(self, key: Key, count: int, total_ns: int, longest_ns: int) -> None:
        if key not in self._sums and len(self._sums) >= _MOST_SUMS:
            key = (key[0], -1, 0, 0, key[4])
        _add(self._sums.setdefault(key, Sum()), count, total_ns, longest_ns)


def _add(one: Sum, count: int, total_ns: int, longest_ns: int) -> None:
    one.count += count
    one.total_ns += total_ns
    one.longest_ns = max(one.longest_ns, longest_ns)


def _text(key: Key, definitions: Definitions) -> str:
    """The kernel is kept whole where the frames are too many."""
    _, stack, range_, name, _ = key
    frames = definitions.stack(stack) if stack else NOT_KNOWN
    lines = [frames[:_FRAMES_LIMIT]]
    around = definitions.name(range_) if range_ else UNKNOWN
    if around != UNKNOWN:
        lines.append(around.replace("\n", " ")[:_KERNEL_LIMIT])
    lines.append(definitions.name(name).replace("\n", " ")[:_KERNEL_LIMIT])
    return "\n".join(lines)
