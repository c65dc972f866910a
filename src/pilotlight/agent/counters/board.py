"""All sources of the node, what they said last, and what is new for the recordings."""

from __future__ import annotations

import math
from collections import Counter as Tally
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from pilotlight.agent.counters.rows import Value, WindowRow
from pilotlight.agent.counters.source import Counter, Event, Source
from pilotlight.agent.counters.worker import Condition, Stamped, Worker
from pilotlight.recording.schema import BACK, LOST, WINDOW_NS

_MOST_COUNTERS = 8192
_STALE_NS = 60_000_000_000
_MOST_EVENTS = 64
_MOST_MISSING = 64
_END_S = 0.2
_SILENT = ("failing", "blocked")
# What is missing of a device is all of it, which is an event of its own.
_WHOLE = "gpu"
_NEVER_THERE = ("not supported", "function not found")
_MOST_NAMED = 8


@dataclass(frozen=True)
class News:
    values: Sequence[Value]
    events: Sequence[tuple[int, Event]]
    windows: Sequence[WindowRow]


class Board:
    """`look` is called once a second by the agent's loop; the sources' threads do the waiting."""

    def __init__(
        self, sources: Mapping[str, Callable[[], Source]], period_ns: int, now_ns: int
    ) -> None:
        self._period_ns = period_ns
        self._workers = [Worker(name, made, period_ns, now_ns) for name, made in sources.items()]
        if not period_ns:
            self._workers = []
        self._latest: dict[Counter, tuple[int, float]] = {}
        self._missing: dict[str, Mapping[str, str]] = {}
        self._events: list[tuple[int, Event]] = []
        self._silent: set[str] = set()
        self._sums: dict[tuple[Counter, int], list[float]] = {}
        self.models: dict[str, str] = {}
        self.problems: Tally[str] = Tally()

    def look(self, now_ns: int, is_wanted: bool, slower: int) -> News:
        """What is new; `slower` times the period while the agent has to save."""
        values: list[Value] = []
        events: list[tuple[int, Event]] = []
        for worker in self._workers:
            worker.period_ns = self._period_ns * slower
            worker.want(is_wanted)
            events += [(now_ns, event) for event in self._turned(worker.condition(now_ns))]
            for stamped in worker.take():
                stopped = _stopped(self._missing.get(worker.name), stamped.reading.missing)
                events += [(stamped.time_ns, event) for event in stopped]
                self._missing[worker.name] = stamped.reading.missing
                self.models.update(stamped.reading.models)
                self._drop_lost(stamped.reading.events)
                values += self._fresh(stamped)
                events += [(stamped.time_ns, event) for event in stamped.reading.events]
        self._events = (self._events + events)[-_MOST_EVENTS:]
        for when, counter, value in values:
            self._sum(counter, when, value)
        if is_wanted:
            self._forget(now_ns)
        else:  # the next recording is told of what does not answer then
            self._silent.clear()
        return News(values, events, self._windows(now_ns))

    def happened(self, events: Sequence[tuple[int, Event]]) -> None:
        """What no source of ours has seen, for `top`."""
        self._events = [*self._events, *events][-_MOST_EVENTS:]

    def conditions(self, now_ns: int) -> list[Condition]:
        return [worker.condition(now_ns) for worker in self._workers]

    def latest(self) -> dict[str, dict[str, tuple[float, str]]]:
        """By device and name: value and unit."""
        found: dict[str, dict[str, tuple[float, str]]] = {}
        for counter, (_, value) in self._latest.items():
            found.setdefault(counter.device, {})[counter.name] = (value, counter.unit)
        return found

    def status(self, now_ns: int) -> dict[str, object]:
        """For `top` and `doctor`."""
        return {
            "sources": [
                {
                    "name": one.name,
                    "state": one.state,
                    "detail": one.detail,
                    "fix": one.fix,
                    "counts": one.counts,
                    "cpu_ns": one.cpu_ns,
                    "age_ns": now_ns - one.last_read_ns if one.last_read_ns else None,
                    "missing": dict(list(self._missing.get(one.name, {}).items())[:_MOST_MISSING]),
                }
                for one in self.conditions(now_ns)
            ],
            "values": {
                device: {name: [round(value, 4), unit] for name, (value, unit) in mine.items()}
                for device, mine in self.latest().items()
            },
            "events": [
                {"age_ns": now_ns - when, **event._asdict()} for when, event in self._events
            ],
            "problems": dict(self.problems),
        }

    def stop(self) -> None:
        for worker in self._workers:
            worker.stop()
        for worker in self._workers:
            worker.join(_END_S)

    def _fresh(self, stamped: Stamped) -> list[Value]:
        fresh: list[Value] = []
        for counter, value in stamped.reading.values:
            if not math.isfinite(value):
                self.problems["values that are no numbers"] += 1
            elif counter not in self._latest and len(self._latest) >= _MOST_COUNTERS:
                self.problems[f"values beyond {_MOST_COUNTERS} counters"] += 1
            else:
                self._latest[counter] = (stamped.time_ns, value)
                fresh.append((stamped.time_ns, counter, float(value)))
        return fresh

    def _turned(self, condition: Condition) -> list[Event]:
        """That a source does not answer any more, or does again."""
        name, state = condition.name, condition.state
        if state in _SILENT and name not in self._silent:
            self._silent.add(name)
            return [Event(name, state, 0, condition.detail)]
        if state == "ok" and name in self._silent:
            self._silent.discard(name)
            return [Event(name, BACK, 0, "it answers again")]
        return []

    def _drop_lost(self, events: Sequence[Event]) -> None:
        """What a device said before it was lost is no longer so, also of its instances."""
        for lost in (event.device for event in events if event.name == LOST):
            mine = [c for c in self._latest if c.device == lost or c.device.startswith(f"{lost}/")]
            for counter in mine:
                del self._latest[counter]

    def _forget(self, now_ns: int) -> None:
        """What was not said for a minute is no longer so."""
        old = [c for c, (when, _) in self._latest.items() if now_ns - when > _STALE_NS]
        for counter in old:
            del self._latest[counter]

    def _sum(self, counter: Counter, when_ns: int, value: float) -> None:
        key = (counter, when_ns - when_ns % WINDOW_NS)
        row = self._sums.get(key)
        if row is None:
            self._sums[key] = [1, value, value, value]
            return
        row[0] += 1
        row[1] += value
        row[2] = min(row[2], value)
        row[3] = max(row[3], value)

    def _windows(self, now_ns: int) -> list[WindowRow]:
        """The windows that nothing can come to any more: a read may be a little late."""
        done = [key for key in self._sums if now_ns - key[1] > WINDOW_NS + 2 * self._period_ns]
        rows: list[WindowRow] = []
        for key in done:
            count, total, least, most = self._sums.pop(key)
            rows.append((key[0], key[1], int(count), total / count, least, most))
        return rows


def _stopped(before: Mapping[str, str] | None, now: Mapping[str, str]) -> list[Event]:
    """What was read before and is not any more, one event for each device and reason."""
    found: dict[tuple[str, str], list[str]] = {}
    for what, why in now.items() if before is not None else ():
        device, _, name = what.partition(" ")
        if what not in (before or {}) and name != _WHOLE and why not in _NEVER_THERE:
            found.setdefault((device, why), []).append(name or "all")
    return [
        Event(device, "unread", 0, f"{', '.join(names[:_MOST_NAMED])}: {why}")
        for (device, why), names in found.items()
    ]
