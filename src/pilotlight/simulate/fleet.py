"""A simulated fleet: the batches that the agents of many nodes would send, with faults."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from pilotlight.recording.schema import WINDOW_NS
from pilotlight.ship.envelope import Value, seal
from pilotlight.ship.wire import PARTS, PROTOCOL, WAIT_KNOWN
from pilotlight.simulate.program import histograms_of, identify, texts, windows_of

BATCH_NS = 5_000_000_000
SETTLE_NS = 2_000_000_000
"""How often an agent sends, and how long it waits for what belongs to a step."""
_ALL_KNOWN = (1 << len(PARTS)) - 1 | WAIT_KNOWN
# Where the rows of a table have their time.
_TIMES = {"steps": 2, "windows": 1, "histograms": 1, "collectives": 1, "counters": 2}

_CHECK = ("what", "state", "detail", "fix")
_DOCTOR = (
    ("GPU kernels and copies", "ok", "recorded through libcupti.so.13", ""),
    ("counters: nvml", "ok", "NVIDIA H100 80GB HBM3, driver 580.65", ""),
    ("clock", "ok", "tsc: about 10 ns a timestamp", ""),
)
_BUDGET = {"cpu_ceiling_ratio": 0.02, "memory_ceiling_bytes": 128 << 20, "level": 0}
_DOCTOR_LIMITED = (
    "stacks of a hung process",
    "limited",
    "ptrace_scope is 2: only the job's own sampler sees its stacks",
    "as root: sysctl kernel.yama.ptrace_scope=1",
)


@dataclass(frozen=True)
class FleetFault:
    """`kind` is straggler, hang, throttle, loader, gc, slow_link or xid, on one rank; or checkpoint
    or compile, in which all ranks spend `factor` - 1 of a step."""

    kind: str
    rank: int
    from_ns: int
    to_ns: int = 1 << 62
    factor: float = 1.5


@dataclass(frozen=True)
class FleetJob:
    """A data-parallel job: every step ends for all ranks when the slowest is done."""

    name: str
    nodes: int = 1
    ranks_per_node: int = 8
    step_ns: int = 1_000_000_000
    first_node: int = 0
    attempt: int = 0
    world_size: int = 0
    seed: int = 7
    faults: Sequence[FleetFault] = ()
    command: str = "python train.py --model llama-7b"
    torch: str = "2.13.0"
    mfu_ratio: float = 0.0
    first_step_ns: int = 0

    @property
    def ranks(self) -> int:
        return self.nodes * self.ranks_per_node


@dataclass
class SimulatedAgent:
    """One node's agent. `batch` gives the body of what it tells between two times: of what has
    settled. Its clock is `clock_ns` ahead."""

    job: FleetJob
    node: int
    epoch: int
    cluster: str = "sim"
    settle_ns: int = 0
    clock_ns: int = 0
    sequence: int = 0
    started_ns: int = 0
    _told: set[int] = field(default_factory=set)
    _last_step_ns: dict[int, int] = field(default_factory=dict)

    @property
    def name(self) -> str:
        return f"sim-{self.job.name}-{self.node}"

    @property
    def host(self) -> str:
        return f"node{self.job.first_node + self.node:04d}"

    def batch(self, from_ns: int, to_ns: int, state: str = "running") -> bytes:
        """Everything that ended in [from, to), sums of windows when these have; the next sequence
        number."""
        job = self.job
        self.sequence += 1
        self.started_ns = self.started_ns or from_ns
        first = self.node * job.ranks_per_node
        since_ns, until_ns = from_ns - self.settle_ns, to_ns - self.settle_ns
        steps: list[list[Value]] = []
        windows: list[list[Value]] = []
        histograms: list[list[Value]] = []
        collectives: list[list[Value]] = []
        counters: list[list[Value]] = []
        latest = []
        for place in range(job.ranks_per_node):
            rank = first + place
            rows = list(rank_steps(job, rank, since_ns, until_ns))
            steps += [[place, *row] for row in rows]
            latest.append(rows[-1][0] if rows else -1)
            if rows:
                self._last_step_ns[rank] = rows[-1][1] + rows[-1][2]
            collectives += _collectives(place, job.ranks, since_ns // WINDOW_NS * WINDOW_NS, rows)
            for time_ns in _ended(since_ns, until_ns):
                of_window = (
                    rows
                    if time_ns == since_ns and until_ns - since_ns == WINDOW_NS
                    else list(rank_steps(job, rank, time_ns, time_ns + WINDOW_NS))
                )
                noise = random.Random(hash((job.seed, time_ns, rank, 1)))
                windows += windows_of(place, time_ns, of_window, noise)
                counters += _counters(job, place, rank, time_ns, of_window)
                histograms += histograms_of(place, time_ns, len(of_window))
        header = {
            "protocol": list(PROTOCOL),
            "agent": self.name,
            "epoch": self.epoch,
            "sequence": self.sequence,
            "lowest": 1,
            "cluster": self.cluster,
            "node": self.host,
            "version": "0.1.0",
            "made_ns": to_ns + self.clock_ns,
            "places": [self._place(first, place, step, to_ns) for place, step in enumerate(latest)],
            "jobs": [self._facts(state, to_ns)],
            "events": self._errors(first, from_ns, to_ns),
            "facts": {
                "cpu_ratio": 0.004,
                "rss_bytes": 60 << 20,
                **(_BUDGET if self._tells_cost else {}),
                "gpus": ["NVIDIA H100 80GB HBM3"] * job.ranks_per_node,
                **self._doctor(),
            },
        }
        tables = {
            "steps": steps,
            "windows": windows,
            "histograms": histograms,
            "collectives": collectives,
            "counters": counters,
            "names": self._names(),
        }
        for name, column in _TIMES.items():
            for row in tables[name]:
                row[column] = int(row[column]) + self.clock_ns
        return seal(header, tables)

    def _place(self, first: int, place: int, step: int, now_ns: int) -> dict[str, object]:
        return {
            **_waits(self.job, first + place, now_ns),
            "job": self.job.name,
            "attempt": self.job.attempt,
            "rank": first + place,
            "process": place,
            "pid": 4000 + place,
            "gpu": place,
            "gpu_name": "NVIDIA H100 80GB HBM3",
            "last_step_ns": self._last_step_ns.get(first + place, -self.clock_ns) + self.clock_ns,
            "python": "3.11.7",
            "started_ns": self.started_ns + self.clock_ns,
            "step": step,
            "read": 1000,
            "cost": _cost(self.job.seed, first + place, now_ns) if self._tells_cost else {},
        }

    def _errors(self, first: int, from_ns: int, to_ns: int) -> list[dict[str, object]]:
        return [
            {
                "time_ns": fault.from_ns + self.clock_ns,
                "device": f"gpu{fault.rank - first}",
                "name": "xid",
                "value": 79,
                "text": "GPU has fallen off the bus",
            }
            for fault in self.job.faults
            if fault.kind == "xid"
            and from_ns <= fault.from_ns < to_ns
            and 0 <= fault.rank - first < self.job.ranks_per_node
        ]

    def _facts(self, state: str, now_ns: int) -> dict[str, object]:
        return {
            "job": self.job.name,
            "attempt": self.job.attempt,
            "started_ns": self.started_ns + self.clock_ns,
            "ended_ns": 0 if state == "running" else now_ns + self.clock_ns,
            "state": state,
            "exit_code": int(state == "failed"),
            "launcher": "torchrun",
            "world_size": self.job.world_size or self.job.ranks,
            "command": self.job.command,
            "facts": {"torch": self.job.torch, "cuda": "13.0"},
        }

    @property
    def _tells_cost(self) -> bool:
        return self.sequence % 6 == 1

    def _doctor(self) -> dict[str, object]:
        """As a real agent it tells once, and again after an hour; on the last node one check is not
        as it should be."""
        if self.sequence % 360 != 1:
            return {}
        is_last = self.node == self.job.nodes - 1
        checks = (*_DOCTOR, *((_DOCTOR_LIMITED,) if is_last else ()))
        return {"doctor": [dict(zip(_CHECK, check, strict=True)) for check in checks]}

    def _names(self) -> list[list[Value]]:
        """What it has not told before."""
        known = [(identify(text), kind, text) for kind, text in texts()]
        new = [one for one in known if one[0] not in self._told]
        self._told.update(id for id, _, _ in known)
        return [list(one) for one in new]


def _ended(since_ns: int, until_ns: int) -> range:
    """The windows that ended meanwhile."""
    return range(since_ns // WINDOW_NS * WINDOW_NS, until_ns - WINDOW_NS + 1, WINDOW_NS)


def agents_of(job: FleetJob, epoch: int) -> list[SimulatedAgent]:
    return [SimulatedAgent(job, node, epoch) for node in range(job.nodes)]


def rank_steps(job: FleetJob, rank: int, from_ns: int, to_ns: int) -> Iterator[list[int]]:
    """The steps of a rank that end in [from, to): step, start, duration and its parts."""
    number = max(0, from_ns // job.step_ns - 1)
    while True:
        number += 1
        end_ns = number * job.step_ns
        if end_ns >= to_ns:
            return
        if end_ns < from_ns:
            continue
        hang = next(
            (f for f in job.faults if f.kind == "hang" and f.from_ns <= end_ns < f.to_ns), None
        )
        if hang is not None:
            return
        noise = random.Random(hash((job.seed, number)))
        own = random.Random(hash((job.seed, number, rank)))
        work_ns = int(0.8 * job.step_ns * (1 + 0.01 * noise.random()))
        slow = [f for f in job.faults if f.from_ns <= end_ns < f.to_ns]
        compute = work_ns * 0.85 * (1 + 0.01 * own.random())
        loader, gc, checkpoint, compiled = 0.01 * work_ns, 0.0, 0.0, 0.0
        host = 0.03 * work_ns
        longest = 1.0
        for fault in slow:
            mine = fault.rank == rank
            if fault.kind in ("checkpoint", "compile"):
                spent = (fault.factor - 1) * work_ns
                checkpoint += spent if fault.kind == "checkpoint" else 0.0
                compiled += spent if fault.kind == "compile" else 0.0
                longest = max(longest, fault.factor)
            if fault.kind in ("straggler", "throttle", "slow_link"):
                longest = max(longest, fault.factor)
                if mine and fault.kind != "slow_link":
                    compute *= fault.factor
            if fault.kind == "loader" and mine:
                loader += (fault.factor - 1) * work_ns
                longest = max(longest, fault.factor)
            if fault.kind == "gc" and mine and number % 3 == 0:
                gc = (fault.factor - 1) * work_ns
                longest = max(longest, fault.factor)
        copy = 0.01 * work_ns
        duration = work_ns * longest * 1.02
        known = compute + loader + gc + checkpoint + compiled + host + copy
        communication = max(0.0, duration - known)
        yield [
            number - job.first_step_ns // job.step_ns,
            end_ns - int(duration),
            int(duration),
            int(compute),
            int(communication),
            int(copy),
            int(loader),
            int(gc),
            0,
            int(checkpoint),
            int(compiled),
            int(host),
            max(0, int(communication - 0.06 * duration)),
            _ALL_KNOWN,
        ]


def _collectives(
    place: int, ranks: int, time_ns: int, rows: Sequence[Sequence[int]]
) -> list[list[Value]]:
    if not rows:
        return []
    total = sum(row[4] for row in rows)
    moved = 0.06 * sum(row[2] for row in rows)
    wait = max(0, int(total - moved))
    size = len(rows) * (1 << 30)
    longest = max(row[4] for row in rows)
    return [[place, time_ns, "all_reduce", "dp", ranks, 32 * len(rows), total, wait, size, longest]]


def _counters(
    job: FleetJob, place: int, rank: int, time_ns: int, rows: Sequence[Sequence[int]]
) -> list[list[Value]]:
    own = random.Random(hash((job.seed, time_ns, rank)))
    throttled = max((_share(f, rank, time_ns) for f in job.faults), default=0.0)
    busy = sum(row[3] for row in rows) / WINDOW_NS
    values = {
        "gpu.utilization_ratio": min(1.0, busy),
        "gpu.power_w": 650 + 20 * own.random(),
        "gpu.temperature_c": 64 + 4 * own.random() + 20 * throttled,
        "gpu.sm_clock_mhz": 1980.0 - 795.0 * throttled,
        "gpu.memory_used_bytes": float(62 << 30),
        "gpu.throttle_ratio": throttled,
        "gpu.tensor_active_ratio": min(1.0, 0.55 * busy * (1 + 0.05 * own.random())),
        "gpu.dram_active_ratio": min(1.0, 0.4 * busy * (1 + 0.05 * own.random())),
    }
    if job.mfu_ratio and rows:
        values["mfu"] = job.mfu_ratio * (1 + 0.02 * own.random())
    return [
        [place, place, time_ns, name, 10, 10 * value, value, value, value]
        for name, value in values.items()
    ]


def _cost(seed: int, rank: int, now_ns: int) -> dict[str, object]:
    """As a provider tells it that records a sixth of the time within its ceiling of 1 %."""
    own = random.Random(hash((seed, rank, now_ns)))
    low = 0.001 + 0.001 * own.random()
    return {
        "sampler_ratio": 0.004 + 0.001 * own.random(),
        "rate_hz": 100.0,
        "tier": "records",
        "launches_ratio": 1.0,
        "records_ratio": 0.16 + 0.02 * own.random(),
        "spent_ratio": 0.005,
        "overhead_low": low,
        "overhead_high": low + 0.003,
    }


def _waits(job: FleetJob, rank: int, now_ns: int) -> dict[str, object]:
    """In a hang one rank has not come to the collective that the others wait in."""
    hang = next((f for f in job.faults if f.kind == "hang" and f.from_ns < now_ns), None)
    if hang is None:
        return {}
    done = 32 * (hang.from_ns // job.step_ns)
    return {
        "entered": {"dp": done + (rank != hang.rank)},
        "finished": {"dp": done},
        "operations": {"dp": "all_reduce"},
    }


def _share(fault: FleetFault, rank: int, time_ns: int) -> float:
    """The part of a window in which a device is throttled: counters are means."""
    if fault.kind != "throttle" or fault.rank != rank:
        return 0.0
    begin, end = max(time_ns, fault.from_ns), min(time_ns + WINDOW_NS, fault.to_ns)
    return max(0.0, (end - begin) / WINDOW_NS)
