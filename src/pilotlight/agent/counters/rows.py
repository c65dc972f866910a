"""What the devices said, as rows of one recording: each chunk gets the counters that it uses."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from hashlib import blake2b

from pilotlight.agent.counters.source import Counter, Event
from pilotlight.agent.tables import Tables
from pilotlight.recording.rows import pack_rows

Value = tuple[int, Counter, float]
WindowRow = tuple[Counter, int, int, float, float, float]


def counter_id(counter: Counter) -> int:
    """The same in every agent and recording: chunks of several agents can be read together."""
    text = "\0".join(counter).encode()
    return int.from_bytes(blake2b(text, digest_size=8).digest(), "little")


class DeviceRows:
    """Holds rows until the next commit of the recording takes them."""

    def __init__(self) -> None:
        self._values: list[Value] = []
        self._events: list[tuple[int, Event]] = []
        self._windows: list[WindowRow] = []
        self._in_chunk: set[Counter] = set()
        self._in_windows: set[Counter] = set()

    @property
    def is_waiting(self) -> bool:
        return bool(self._values or self._events or self._windows)

    def add(
        self,
        values: Sequence[Value],
        events: Sequence[tuple[int, Event]],
        windows: Sequence[WindowRow],
    ) -> None:
        self._values += values
        self._events += events
        self._windows += windows

    def new_chunk(self) -> None:
        self._in_chunk.clear()

    def take(self) -> tuple[Tables, Tables]:
        """The tables for detail and for windows."""
        detail: Tables = {}
        windows: Tables = {}
        if self._values:
            _define(detail, self._in_chunk, (counter for _, counter, _ in self._values))
            values = [(counter_id(counter), when, value) for when, counter, value in self._values]
            detail["device_values"] = (len(values), pack_rows("device_values", values))
        if self._events:
            events = [(when, e.device, e.name, e.value, e.text) for when, e in self._events]
            packed = pack_rows("device_events", events)
            detail["device_events"] = (len(events), packed)
            windows["device_events"] = (len(events), packed)
        if self._windows:
            _define(windows, self._in_windows, (row[0] for row in self._windows))
            sums = [(counter_id(row[0]), *row[1:]) for row in self._windows]
            windows["device_windows"] = (len(sums), pack_rows("device_windows", sums))
        self._values, self._events, self._windows = [], [], []
        return detail, windows


def _define(tables: Tables, known: set[Counter], used: Iterable[Counter]) -> None:
    new = [counter for counter in dict.fromkeys(used) if counter not in known]
    if new:
        rows = [(counter_id(counter), *counter) for counter in new]
        tables["device_counters"] = (len(rows), pack_rows("device_counters", rows))
        known.update(new)
