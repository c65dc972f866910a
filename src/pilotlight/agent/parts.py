"""Where the time of a process's steps went, from the spans, collectives and device activities."""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections.abc import Sequence

from pilotlight import _drain
from pilotlight.agent.reductions import REDUCTION, Reductions, Step, Told
from pilotlight.agent.tables import Columns, Tables, numbers
from pilotlight.recording.schema import ActivityKind, CollectiveFlag, SpanKind
from pilotlight.ship.definitions import Definitions
from pilotlight.ship.wire import PARTS, RECKONED, WAIT_KNOWN

_PART = {part.removesuffix("_ns"): index for index, part in enumerate(PARTS)}
_PHASE, _NOTHING = 254, 255
_OF_SPAN = {
    SpanKind.GC: _PART["gc"],
    SpanKind.LOADER: _PART["loader"],
    SpanKind.CHECKPOINT: _PART["checkpoint"],
    SpanKind.COMPILE: _PART["compile"],
    SpanKind.SYNC: _PART["sync"],
    SpanKind.PHASE: _PHASE,
}
_OF_PHASE = {
    "forward": _PHASE,
    "backward": _PHASE,
    "optimizer": _PHASE,
    "data": _PART["loader"],
    "checkpoint": _PART["checkpoint"],
    "communication": _PART["communication"],
}
# What hides what: with a device in sight its work comes first and the host explains its idleness;
# without one the host's own time is all there is.
_HOST_PARTS = ("gc", "loader", "checkpoint", "compile", "sync")
_WITH_DEVICE = ("compute", "communication", "copy", *_HOST_PARTS, "host")
_WITHOUT_DEVICE = (*_HOST_PARTS, "communication", "compute")
_COLLECTIVE_SIGNS = ("nccl", "rccl", "allreduce", "all_reduce", "allgather", "all_gather")
_MOST_INTERVALS = 1_000_000
_SETTLE_NS = 2_000_000_000
_ALL_NS = 1 << 62
_LONGEST_STEP_NS = 300_000_000_000

StepRow = list[int]
"""step, start, duration, the parts, wait, known."""


class StepParts:
    """Of one process. A step is handed out when nothing can come for it any more."""

    def __init__(self, definitions: Definitions) -> None:
        self._definitions = definitions
        self._start = array("q")
        self._duration = array("q")
        self._kind = bytearray()
        self._waits: list[tuple[int, int]] = []
        self._reductions = Reductions()
        self.is_reckoned = False
        self._steps: list[tuple[int, int, int]] = []
        self._is_communication: dict[int, bool] = {}
        self._has_device = False
        self._known = 1 << _PART["gc"]
        self._last_end_ns = 0
        self._complete_from_ns = 0
        self._is_closed = False
        self.left_out = 0

    def add(self, detail: Tables) -> None:
        """The rows of one commit."""
        if "steps" in detail:
            columns = detail["steps"][1]
            self._steps += zip(
                numbers("i64", columns["step"]),
                numbers("i64", columns["start_ns"]),
                numbers("i64", columns["duration_ns"]),
                strict=True,
            )
        if "spans" in detail:
            self._spans(detail["spans"][1])
        if "activities" in detail:
            self._activities(detail["activities"][1])
        if "collectives" in detail:
            self._collectives(detail["collectives"][1])

    @property
    def steps_waiting(self) -> int:
        return len(self._steps)

    @property
    def is_crowded(self) -> bool:
        """Soon it will have to leave out intervals."""
        return bool(self._steps) and 2 * len(self._kind) > _MOST_INTERVALS

    def close(self) -> None:
        """No more is to come: no step waits for its parts any longer."""
        self._is_closed = True

    def take(self, until_ns: int) -> list[StepRow]:
        """Steps that ended before then, each once; after close() all."""
        if self._is_closed:
            until_ns = _ALL_NS
        ready = [step for step in self._steps if step[1] + step[2] <= until_ns - _SETTLE_NS]
        ready.sort(key=lambda step: step[1])
        if not ready:
            self._drop_before(until_ns)
            return []
        self._steps = [step for step in self._steps if step[1] + step[2] > until_ns - _SETTLE_NS]
        sums, width = self._sums(ready)
        order = _WITH_DEVICE if self._has_device else _WITHOUT_DEVICE
        rows = []
        ends = [end for end, _ in self._waits]
        untold = self._reductions.untold_ratios(
            [
                Step(*step, _busy_ns(sums[index * width : (index + 1) * width], order))
                for index, step in enumerate(ready)
            ]
        )
        for index, (step, start_ns, duration_ns) in enumerate(ready):
            parts = [0] * len(PARTS)
            for place, name in enumerate(order):
                parts[_PART[name]] = sums[index * width + place]
            first, last = bisect_left(ends, start_ns), bisect_left(ends, start_ns + duration_ns)
            wait_ns = sum(wait for _, wait in self._waits[first:last])
            # Of a step that began before what is still remembered, too little would be told.
            known = self._known if start_ns >= self._complete_from_ns else 0
            if not known:
                parts = [0] * len(PARTS)
            # Of fast steps not every collective is told: none told is not none waited for.
            if first == last:
                known &= ~WAIT_KNOWN
            if known and not self._has_device:
                reckoned_ns = self._reckon(parts, untold[index])
                known |= RECKONED if reckoned_ns else 0
                # A step may wait in other collectives, too, and these are told of all steps.
                wait_ns += reckoned_ns if known & WAIT_KNOWN else 0
            rows.append([step, start_ns, duration_ns, *parts, wait_ns, known])
            self._last_end_ns = max(self._last_end_ns, start_ns + duration_ns)
        self._drop_before(until_ns)
        return rows

    def _reckon(self, parts: list[int], untold_ratio: float) -> int:
        """What a step waited in its backward without being told is no compute."""
        moved_ns = int(untold_ratio * parts[_PART["compute"]])
        if moved_ns <= 0:
            return 0
        parts[_PART["compute"]] -= moved_ns
        parts[_PART["communication"]] += moved_ns
        self.is_reckoned = True
        return moved_ns

    def _sums(self, ready: list[tuple[int, int, int]]) -> tuple[array[int], int]:
        order = _WITH_DEVICE if self._has_device else _WITHOUT_DEVICE
        places = bytearray([_NOTHING] * 256)
        for place, name in enumerate(order):
            places[_PART[name]] = place
        places[_PHASE] = order.index("host" if self._has_device else "compute")
        found = _drain.step_parts(
            self._start.tobytes(),
            self._duration.tobytes(),
            bytes(self._kind).translate(bytes(places)),
            array("q", [start_ns for _, start_ns, _ in ready]).tobytes(),
            array("q", [duration_ns for _, _, duration_ns in ready]).tobytes(),
            len(order),
        )
        return array("q", found), len(order)

    def _spans(self, columns: Columns) -> None:
        starts, durations = numbers("i64", columns["start_ns"]), columns["duration_ns"]
        names = numbers("u32", columns["name"])
        rows = zip(columns["kind"], starts, numbers("i64", durations), names, strict=True)
        for kind, start_ns, duration_ns, name in rows:
            part = _OF_SPAN.get(SpanKind(kind), _NOTHING) if kind in _SPAN_KINDS else _NOTHING
            if part == _NOTHING:
                continue
            if part == _PHASE:
                part = _OF_PHASE.get(self._definitions.name(name), _NOTHING)
                if part == _NOTHING:
                    continue
            self._interval(part, start_ns, duration_ns)
            self._known |= 1 << (_PART["compute"] if part == _PHASE else part)

    def _activities(self, columns: Columns) -> None:
        names, kinds = numbers("u32", columns["name"]), columns["kind"]
        if len(self._kind) + len(kinds) > _MOST_INTERVALS:
            self.left_out += len(kinds)
            return
        copies = (ActivityKind.MEMCPY, ActivityKind.MEMSET)
        compute, communication, copy = _PART["compute"], _PART["communication"], _PART["copy"]
        parts = bytearray()
        for kind, name in zip(kinds, names, strict=True):
            if kind == ActivityKind.KERNEL or kind == ActivityKind.GRAPH:
                is_communication = self._is_communication.get(name)
                if is_communication is None:
                    is_communication = self._look_at(name)
                parts.append(communication if is_communication else compute)
            else:
                parts.append(copy if kind in copies else _NOTHING)
        self._kind += parts
        self._start.frombytes(columns["start_ns"])
        self._duration.frombytes(columns["duration_ns"])
        self._has_device = self._has_device or ActivityKind.KERNEL in kinds
        if self._has_device:
            for name_of_part in ("compute", "communication", "copy", "host"):
                self._known |= 1 << _PART[name_of_part]

    def _look_at(self, name: int) -> bool:
        text = self._definitions.name(name).lower()
        found = any(sign in text for sign in _COLLECTIVE_SIGNS)
        self._is_communication[name] = found
        return found

    def _collectives(self, columns: Columns) -> None:
        rows = zip(
            columns["flags"],
            numbers("i64", columns["start_ns"]),
            numbers("i64", columns["duration_ns"]),
            numbers("i64", columns["wait_ns"]),
            numbers("u32", columns["name"]),
            numbers("u32", columns["group"]),
            numbers("i64", columns["bytes"]),
            numbers("u64", columns["sequence"]),
            strict=True,
        )
        for flags, start_ns, duration_ns, wait_ns, name, group, size, sequence in rows:
            self._interval(_PART["communication"], start_ns, duration_ns)
            self._known |= 1 << _PART["communication"]
            if flags & CollectiveFlag.WAIT_KNOWN:
                self._known |= WAIT_KNOWN
                self._waits.append((start_ns + duration_ns, wait_ns))
            if self._definitions.name(name) == REDUCTION:
                told = Told(start_ns + duration_ns, sequence, wait_ns)
                self._reductions.add(group, size, told)
        self._waits.sort()

    def _interval(self, part: int, start_ns: int, duration_ns: int) -> None:
        if len(self._kind) >= _MOST_INTERVALS:
            self.left_out += 1
            return
        self._kind.append(part)
        self._start.append(start_ns)
        self._duration.append(duration_ns)

    def _drop_before(self, until_ns: int) -> None:
        """What no step can need: they follow each other, so what lies before the last one's end."""
        begins = [start_ns for _, start_ns, _ in self._steps]
        oldest_ns = max(self._last_end_ns, until_ns - _LONGEST_STEP_NS)
        oldest_ns = min([oldest_ns, *begins])
        count = 0
        for start_ns, duration_ns in zip(self._start, self._duration, strict=True):
            if start_ns + duration_ns > oldest_ns:
                break
            count += 1
        del self._start[:count], self._duration[:count], self._kind[:count]
        self._waits = self._waits[bisect_left(self._waits, (oldest_ns, 0)) :]
        self._complete_from_ns = max(self._complete_from_ns, oldest_ns)


_SPAN_KINDS = frozenset(int(kind) for kind in SpanKind)


def _busy_ns(sums: Sequence[int], order: Sequence[str]) -> int:
    return sums[order.index("compute")] + sums[order.index("communication")]
