"""The machine itself: CPU, run queue, memory, NUMA, pressure, disks and network."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path

from pilotlight.agent.counters.rates import Rates
from pilotlight.agent.counters.source import Counter, Reading, SourceMissing

_HOST = "host"
_MOST_DEVICES = 64
_SECTOR_BYTES = 512
_LOOK_AGAIN = 60
_KIB = 1024

Found = Iterator[tuple[Counter, float]]


class Host:
    """`root` is / except in tests. A file that is not there is `missing`, the others go on."""

    name = "host"

    def __init__(self, root: Path = Path("/")) -> None:
        self._proc = root / "proc"
        self._sys = root / "sys"
        if not (self._proc / "stat").exists():
            raise SourceMissing("/proc is not mounted")
        self._rates = Rates()
        self._tick = os.sysconf("SC_CLK_TCK")
        self._time_ns = 0
        self._reads = 0
        self._disks: frozenset[str] = frozenset()
        self._nodes: tuple[Path, ...] = ()
        self._left_out = 0

    def read(self) -> Reading:
        if self._reads % _LOOK_AGAIN == 0:
            self._look()
            self._rates.forget_older_than(time.monotonic_ns() - 60 * 1_000_000_000)
        self._reads += 1
        values: list[tuple[Counter, float]] = []
        missing = {}
        for what, ask in (
            ("cpu", self._cpu),
            ("load", self._load),
            ("memory", self._memory),
            ("paging", self._paging),
            ("pressure", self._pressure),
            ("numa", self._numa),
            ("disks", self._disk),
            ("network", self._network),
        ):
            # Anew for each: an agent that waits for a CPU on a full machine would otherwise divide
            # what was counted meanwhile by the time before it.
            self._time_ns = time.monotonic_ns()
            try:
                values += ask()
            except (OSError, ValueError, IndexError) as error:
                missing[what] = str(error)[:200]
        if self._left_out:
            missing["disks and interfaces"] = f"{self._left_out} more than {_MOST_DEVICES}"
        return Reading(tuple(values), (), missing)

    def describe(self) -> str:
        return f"{os.cpu_count()} CPUs, {len(self._nodes)} NUMA nodes, {len(self._disks)} disks"

    def _look(self) -> None:
        """Disks and nodes come and go seldom."""
        block = self._sys / "block"
        names = sorted(entry.name for entry in block.iterdir()) if block.is_dir() else []
        real = [name for name in names if not name.startswith(("loop", "ram", "zram"))]
        self._disks = frozenset(real[:_MOST_DEVICES])
        self._left_out = max(0, len(real) - _MOST_DEVICES)
        nodes = sorted((self._sys / "devices/system/node").glob("node[0-9]*"))
        self._nodes = tuple(nodes[:_MOST_DEVICES])

    def _rate(self, device: str, name: str, unit: str, count: float, factor: float = 1.0) -> Found:
        rate = self._rates.per_second((device, name), self._time_ns, count)
        if rate is not None:
            yield Counter(device, name, unit), rate * factor

    def _cpu(self) -> Found:
        to_percent = 100 / self._tick / (os.cpu_count() or 1)
        for line in (self._proc / "stat").read_text().splitlines():
            key, _, rest = line.partition(" ")
            if key == "cpu":
                spent = [int(word) for word in rest.split()]
                user, nice, system, _, iowait, irq, softirq, steal = spent[:8]
                busy = user + nice + system + irq + softirq + steal
                yield from self._rate(_HOST, "cpu", "%", busy, to_percent)
                yield from self._rate(_HOST, "cpu_system", "%", system + irq + softirq, to_percent)
                yield from self._rate(_HOST, "cpu_iowait", "%", iowait, to_percent)
                yield from self._rate(_HOST, "cpu_steal", "%", steal, to_percent)
            elif key == "ctxt":
                yield from self._rate(_HOST, "context_switches", "1/s", int(rest))
            elif key == "procs_running":
                yield Counter(_HOST, "run_queue", "threads"), int(rest)
            elif key == "procs_blocked":
                yield Counter(_HOST, "blocked_on_disk", "threads"), int(rest)

    def _load(self) -> Found:
        first, *_ = (self._proc / "loadavg").read_text().split()
        yield Counter(_HOST, "load", "threads"), float(first)

    def _memory(self) -> Found:
        names = {
            "MemTotal:": "memory_total",
            "MemAvailable:": "memory_available",
            "Dirty:": "memory_dirty",
            "SwapTotal:": "swap_total",
            "SwapFree:": "swap_free",
            "Shmem:": "memory_shared",
        }
        for line in (self._proc / "meminfo").read_text().splitlines():
            key, *words = line.split()
            if key in names:
                yield Counter(_HOST, names[key], "B"), int(words[0]) * _KIB

    def _paging(self) -> Found:
        names = {"pgmajfault": "major_faults", "pswpin": "swap_in", "pswpout": "swap_out"}
        for line in (self._proc / "vmstat").read_text().splitlines():
            key, _, count = line.partition(" ")
            if key in names:
                yield from self._rate(_HOST, names[key], "1/s", int(count))
            elif key == "oom_kill":
                yield Counter(_HOST, "oom_kills", "processes"), int(count)

    def _pressure(self) -> Found:
        """The share of time in which some, or all, work waited for the resource."""
        for resource in ("cpu", "memory", "io"):
            for line in (self._proc / "pressure" / resource).read_text().splitlines():
                kind, *pairs = line.split()
                total_us = int(dict(pair.split("=") for pair in pairs)["total"])
                yield from self._rate(_HOST, f"pressure_{resource}_{kind}", "%", total_us, 1e-4)

    def _numa(self) -> Found:
        for node in self._nodes:
            device = f"numa{node.name.removeprefix('node')}"
            for line in (node / "numastat").read_text().splitlines():
                key, _, count = line.partition(" ")
                if key in ("numa_miss", "other_node"):
                    yield from self._rate(device, key, "pages/s", int(count))
            for line in (node / "meminfo").read_text().splitlines():
                words = line.split()
                if words[2] == "MemFree:":
                    yield Counter(device, "memory_free", "B"), int(words[3]) * _KIB

    def _disk(self) -> Found:
        for line in (self._proc / "diskstats").read_text().splitlines():
            words = line.split()
            device = words[2]
            if device not in self._disks or words[3] == words[7] == "0":
                continue
            yield from self._rate(device, "reads", "1/s", int(words[3]))
            yield from self._rate(device, "read", "B/s", int(words[5]), _SECTOR_BYTES)
            yield from self._rate(device, "writes", "1/s", int(words[7]))
            yield from self._rate(device, "written", "B/s", int(words[9]), _SECTOR_BYTES)
            yield from self._rate(device, "busy", "%", int(words[12]), 0.1)
            yield from self._rate(device, "queue", "requests", int(words[13]), 1e-3)

    def _network(self) -> Found:
        lines = (self._proc / "net" / "dev").read_text().splitlines()[2:]
        shown = [line for line in lines if not line.lstrip().startswith(("lo:", "veth"))]
        for line in shown[:_MOST_DEVICES]:
            name, _, rest = line.partition(":")
            counts = [int(word) for word in rest.split()]
            if not counts[1] and not counts[9]:
                continue
            device = name.strip()
            yield from self._rate(device, "received", "B/s", counts[0])
            yield from self._rate(device, "sent", "B/s", counts[8])
            yield from self._rate(device, "receive_drops", "1/s", counts[2] + counts[3])
            yield from self._rate(device, "send_drops", "1/s", counts[10] + counts[11])


def open_host() -> Host:
    return Host()
