"""The control groups (1 or 2) of the recorded processes: CPU throttling and memory."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from pilotlight.agent.counters.rates import Rates
from pilotlight.agent.counters.source import Counter, Reading

_MOST_GROUPS = 16
_MOST_PIDS = 256
_LOOK_AGAIN = 10
_NO_LIMIT_BYTES = 1 << 60

Pids = Callable[[], Iterable[int]]


class Cgroup:
    """`pids` gives the processes of the jobs; several in one group are one device."""

    name = "cgroup"

    def __init__(self, pids: Pids, root: Path = Path("/")) -> None:
        self._pids = pids
        self._root = root
        self._place = root / "sys/fs/cgroup"
        self._rates = Rates()
        self._groups: dict[str, tuple[Path, Path]] = {}
        self._left_out = 0
        self._reads = 0

    def read(self) -> Reading:
        if self._reads % _LOOK_AGAIN == 0 or not self._groups:
            self._look()
        self._reads += 1
        now_ns = time.monotonic_ns()
        values: list[tuple[Counter, float]] = []
        for device, (cpu, memory) in self._groups.items():
            values += self._throttling(device, cpu, now_ns)
            values += self._memory(device, memory)
        missing = {"groups": f"{self._left_out} more"} if self._left_out else {}
        return Reading(tuple(values), missing=missing)

    def describe(self) -> str:
        return f"{len(self._groups)} groups of recorded processes"

    def _look(self) -> None:
        found: dict[str, tuple[Path, Path]] = {}
        for pid in list(self._pids())[:_MOST_PIDS]:
            text = groups_of(pid, self._root)
            if text:
                found.setdefault(device_of(text), group_folders(text, self._place))
        names = list(found)
        self._left_out = max(0, len(names) - _MOST_GROUPS)
        self._groups = {name: found[name] for name in names[:_MOST_GROUPS]}

    def _throttling(
        self, device: str, folder: Path, now_ns: int
    ) -> Iterator[tuple[Counter, float]]:
        for key, count in _pairs(folder / "cpu.stat"):
            # Version 1 counts nanoseconds, version 2 microseconds.
            if key in ("throttled_time", "throttled_usec"):
                factor = 1e-7 if key == "throttled_time" else 1e-4
                rate = self._rates.per_second((device, key), now_ns, count)
                if rate is not None:
                    yield Counter(device, "throttled", "%"), rate * factor
            elif key == "nr_throttled":
                rate = self._rates.per_second((device, key), now_ns, count)
                if rate is not None:
                    yield Counter(device, "throttled_periods", "1/s"), rate

    def _memory(self, device: str, folder: Path) -> Iterator[tuple[Counter, float]]:
        for name, files in (
            ("memory_used", ("memory.current", "memory.usage_in_bytes")),
            ("memory_limit", ("memory.max", "memory.limit_in_bytes")),
        ):
            for file in files:
                value = _number(folder / file)
                if value is not None and value < _NO_LIMIT_BYTES:
                    yield Counter(device, name, "B"), value
                    break


def group_of(pid: int, root: Path = Path("/")) -> str:
    """What the group of a process is called among the devices; empty where nobody knows."""
    text = groups_of(pid, root)
    return device_of(text) if text else ""


def group_folders(text: str, place: Path) -> tuple[Path, Path]:
    """Where /proc/PID/cgroup says that the cpu and memory files are."""
    paths: dict[str, str] = {}
    for line in text.splitlines():
        _, controllers, path = ([*line.split(":", 2), "", ""])[:3]
        for controller in controllers.split(","):
            paths[controller] = path.lstrip("/")
    unified = place / paths.get("", "")
    cpu = place / "cpu" / paths["cpu"] if "cpu" in paths else unified
    memory = place / "memory" / paths["memory"] if "memory" in paths else unified
    return cpu, memory


def groups_of(pid: int, root: Path) -> str:
    try:
        return (root / f"proc/{pid}/cgroup").read_text()
    except OSError:
        return ""


def device_of(text: str) -> str:
    """The end of the longest path: what tells groups apart."""
    paths = [line.split(":", 2)[-1] for line in text.splitlines()]
    longest = max(paths, key=len, default="/")
    return f"cgroup {'/'.join(longest.split('/')[-2:])[-80:] or '/'}"


def _pairs(path: Path) -> Iterator[tuple[str, int]]:
    try:
        lines = path.read_text().splitlines()
    except OSError:
        return
    for line in lines:
        key, _, value = line.partition(" ")
        if value.isdigit():
            yield key, int(value)


def _number(path: Path) -> int | None:
    try:
        return int(path.read_text())
    except (OSError, ValueError):
        return None
