"""Names for ids, and the functions that ran lately: kept only while somebody looks."""

from __future__ import annotations

from collections import Counter, deque
from itertools import islice

from pilotlight.agent.tables import Columns, Tables, numbers, texts
from pilotlight.recording.schema import State

_RECENT_NS = 10_000_000_000
_MOST_DEFINITIONS = 20_000
_UNKNOWN = "?"


class Functions:
    """Of one process. Learns definitions from the tables that go by, up to a bound."""

    def __init__(self) -> None:
        self._names: dict[int, str] = {}
        self._frames: dict[int, str] = {}
        self._leaves: dict[int, int] = {}
        self._recent: deque[tuple[int, Counter[int]]] = deque()

    def see(self, tables: Tables, now_ns: int) -> None:
        if "names" in tables:
            columns = tables["names"][1]
            found = texts(columns["text"], columns["text:offsets"])
            _learn(self._names, numbers("u32", columns["id"]), found)
        if "frames" in tables:
            columns = tables["frames"][1]
            found = texts(columns["function"], columns["function:offsets"])
            _learn(self._frames, numbers("u32", columns["id"]), found)
        if "stacks" in tables:
            columns = tables["stacks"][1]
            ids, frames = numbers("u32", columns["id"]), numbers("u32", columns["frame"])
            for stack, frame in zip(ids, frames, strict=True):
                if len(self._leaves) < _MOST_DEFINITIONS:
                    self._leaves[stack] = frame
        if "samples" in tables:
            self._recent.append((now_ns, self._running(tables["samples"][1])))
        while self._recent and now_ns - self._recent[0][0] > _RECENT_NS:
            self._recent.popleft()

    def name(self, id: int) -> str:
        return self._names.get(id, _UNKNOWN)

    def function(self, stack: int) -> str:
        """The innermost function of a stack."""
        return self._frames.get(self._leaves.get(stack, 0), _UNKNOWN)

    def top(self, most: int) -> list[tuple[str, float]]:
        """The functions that ran most in the last seconds, with their share of the running time."""
        total: Counter[str] = Counter()
        for _, weights in self._recent:
            for frame, weight_ns in weights.items():
                total[self._frames.get(frame, _UNKNOWN)] += weight_ns
        whole = sum(total.values())
        if not whole:
            return []
        return [(name, weight / whole) for name, weight in total.most_common(most)]

    def _running(self, columns: Columns) -> Counter[int]:
        weights: Counter[int] = Counter()
        rows = zip(
            numbers("u32", columns["stack"]),
            columns["state"],
            numbers("i64", columns["weight_ns"]),
            strict=True,
        )
        for stack, state, weight_ns in rows:
            if state == State.RUNNING:
                weights[self._leaves.get(stack, 0)] += weight_ns
        return weights


def _learn(known: dict[int, str], ids: list[int], found: list[str]) -> None:
    room = _MOST_DEFINITIONS - len(known)
    known.update(islice(zip(ids, found, strict=True), max(room, 0)))
