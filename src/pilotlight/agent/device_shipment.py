"""What the node's counters have to send: windows, events, and which GPUs there are."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from pilotlight.agent.counters.rows import WindowRow
from pilotlight.agent.counters.source import Event
from pilotlight.agent.header import Described
from pilotlight.recording.schema import WINDOW_NS
from pilotlight.ship.envelope import Value
from pilotlight.ship.wire import gpu_number

_MOST_COUNTERS = 20_000
_MOST_EVENTS = 1000
_MOST_GPUS = 1024
# In the store the unit is part of the name.
_UNITS = {
    "%": ("_ratio", 0.01),
    "°C": ("_c", 1.0),
    "MHz": ("_mhz", 1.0),
    "W": ("_w", 1.0),
    "J": ("_j", 1.0),
    "B": ("_bytes", 1.0),
    "B/s": ("_bytes_per_s", 1.0),
}
_MEMORY_OF = "memory_of_pid_"
_THROTTLES = ("held_by_temperature", "held_by_board", "held_by_reliability")


class DeviceShipment:
    def __init__(self) -> None:
        self._windows: list[WindowRow] = []
        self._events: list[tuple[int, Event]] = []
        self._models: Mapping[str, str] = {}
        self._memory_of: dict[int, dict[int, float]] = {}  # by GPU and process

    @property
    def gpus(self) -> list[str]:
        """What each of them is."""
        return [model[:200] for _, model in sorted(self._models.items())][:_MOST_GPUS]

    def add(
        self,
        windows: Sequence[WindowRow],
        events: Sequence[tuple[int, Event]],
        models: Mapping[str, str],
    ) -> None:
        """`models` by device."""
        self._windows = [*self._windows, *windows][-_MOST_COUNTERS:]
        self._events = [*self._events, *events][-_MOST_EVENTS:]
        self._models = models
        self._see_processes(windows)

    def held_by(self, pids: Collection[int]) -> Mapping[int, int] | None:
        """By process the GPU that it has most memory of. None where the driver knows none of these:
        it tells of no processes, or numbers them in another namespace."""
        most: dict[int, tuple[float, int]] = {}
        for gpu, processes in self._memory_of.items():
            for pid, size in processes.items():
                most[pid] = max(most.get(pid, (-1.0, -1)), (size, gpu))
        if not most.keys() & set(pids):
            return None
        return {pid: gpu for pid, (_, gpu) in most.items()}

    def _see_processes(self, windows: Sequence[WindowRow]) -> None:
        listed: dict[int, dict[int, float]] = {}
        for counter, _, _, mean, _, _ in windows:
            gpu, pid = gpu_number(counter.device), counter.name.removeprefix(_MEMORY_OF)
            if counter.name == "processes" and gpu >= 0:
                listed.setdefault(gpu, {})
            elif pid != counter.name and pid.isdigit() and gpu >= 0:
                listed.setdefault(gpu, {})[int(pid)] = mean
        self._memory_of.update(listed)

    def take_rows(
        self,
        places: list[Described],
        tables: dict[str, list[list[Value]]],
        to_realtime_ns: int,
    ) -> None:
        """A GPU's counters are those of the rank that has it; the rest are the node's own."""
        owners = {
            place["gpu"]: number for number, place in enumerate(places) if place["rank"] != -1
        }
        for described in places:
            described["gpu_name"] = self._models.get(f"gpu{described['gpu']}", "")[:200]
        node = len(places)
        rows = tables.setdefault("counters", [])
        throttled: dict[tuple[int, int, int], float] = {}
        for counter, start_ns, count, mean, least, most in self._windows:
            gpu = gpu_number(counter.device)
            suffix, scale = _UNITS.get(counter.unit, ("", 1.0))
            name = f"{'gpu' if gpu >= 0 else counter.device}.{counter.name}{suffix}"
            when_ns = (start_ns + to_realtime_ns) // WINDOW_NS * WINDOW_NS
            place = owners.get(gpu, node) if gpu >= 0 else node
            value = mean * scale
            row: list[Value] = [
                place,
                gpu,
                when_ns,
                name,
                count,
                value * count,
                least * scale,
                most * scale,
            ]
            rows.append([*row, value])
            if counter.name in _THROTTLES:
                throttled[place, gpu, when_ns] = throttled.get((place, gpu, when_ns), 0.0) + value
        for (place, gpu, when_ns), ratio in throttled.items():
            rows.append([place, gpu, when_ns, "gpu.throttle_ratio", 1, ratio, ratio, ratio, ratio])
        if any(row[0] == node for row in rows):
            places.append({"job": "", "role": "node"})
        self._windows = []

    def take_events(self, to_realtime_ns: int) -> list[Described]:
        events: list[Described] = [
            {
                "time_ns": when + to_realtime_ns,
                "device": event.device[:200],
                "name": event.name[:200],
                "value": event.value,
                "text": event.text[:200],
            }
            for when, event in self._events
        ]
        self._events = []
        return events
