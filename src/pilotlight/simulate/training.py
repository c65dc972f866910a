"""A data-parallel training, step by step, with all that healthy ones have: jitter of devices and
hosts, a warm-up, evaluations, checkpoints, uneven batches. One rank may be slower."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from pilotlight.recording.columns import Array
from pilotlight.ship.envelope import Value, seal
from pilotlight.ship.wire import PARTS, PROTOCOL, WAIT_KNOWN

BATCH_NS = 5_000_000_000
_SETTLE_NS = 2_000_000_000
# An agent looks once a second whether a batch is due.
_LATE_NS = 1_000_000_000
_ALL_TOLD = 32
_TOLD_APART_NS = 100_000_000
_PART = {part.removesuffix("_ns"): index for index, part in enumerate(PARTS)}
_OF_A_DEVICE = (1 << len(PARTS)) - 1 | WAIT_KNOWN
_OF_A_HOST = sum(1 << _PART[name] for name in ("compute", "communication", "loader", "gc"))


@dataclass(frozen=True)
class Training:
    """Ratios are of the step. `sees_devices`: else the host alone tells, and of fast steps not
    every wait. `slow_rank` computes `slow_factor` times as long from `slow_from_s` on."""

    seed: int
    ranks: int = 8
    ranks_per_node: int = 4
    step_s: float = 0.5
    lasts_s: float = 300.0
    sees_devices: bool = True
    jitter_ratio: float = 0.01
    drift_ratio: float = 0.005
    unlike_ratio: float = 0.004
    spikes_ratio: float = 0.002
    uneven_ratio: float = 0.0
    warm_steps: int = 20
    evaluates_every: int = 0
    saves_every: int = 0
    slow_rank: int = -1
    slow_factor: float = 1.0
    slow_from_s: float = 150.0

    @cached_property
    def _made(self) -> tuple[Array, Array, Array, Array]:
        """Start and length of each step; by rank and step what it computes, and what it saves."""
        random = np.random.default_rng(self.seed)
        base_ns = 0.85e9 * self.step_s
        most = int(self.lasts_s / self.step_s) + 1
        shape = (self.ranks, most)
        own = np.full(shape, base_ns) * (
            1 + self.unlike_ratio * random.standard_normal((self.ranks, 1))
        )
        own *= 1 + self.jitter_ratio * np.abs(random.standard_normal(shape))
        own *= 1 + self.drift_ratio * _drift(random, shape)
        own *= np.maximum(0.2, 1 + self.uneven_ratio * random.standard_normal(shape))
        is_spike = random.random(shape) < self.spikes_ratio
        own += is_spike * base_ns * random.uniform(0.3, 3, shape)
        cold = np.exp(-3 * np.arange(most) / max(1, self.warm_steps))
        own *= 1 + cold * random.uniform(0.2, 2)
        if self.slow_rank >= 0:
            own[self.slow_rank, int(self.slow_from_s / self.step_s) :] *= self.slow_factor
        saves = np.zeros(shape)
        pause = np.zeros(most)
        if self.saves_every:
            saves[0, self.saves_every :: self.saves_every] = (
                0.6 * base_ns * random.uniform(0.5, 1.5)
            )
        if self.evaluates_every:
            pause[self.evaluates_every :: self.evaluates_every] = 1e9 * random.uniform(2, 20)
        transfer = 0.04 * base_ns * random.uniform(0.9, 1.3, most)
        length = (own + saves).max(axis=0) + transfer
        start = np.concatenate([[0], np.cumsum(length + pause)[:-1]]) + pause
        kept = start + length < self.lasts_s * 1e9
        return (
            start[kept].astype(np.int64),
            length[kept].astype(np.int64),
            own[:, kept].astype(np.int64),
            saves[:, kept].astype(np.int64),
        )

    @property
    def steps(self) -> int:
        return len(self._made[0])

    def slow_from_ns(self) -> int:
        """When the first step ends that the slow rank makes longer."""
        start, length, _, _ = self._made
        index = min(int(self.slow_from_s / self.step_s), len(start) - 1)
        return int(start[index] + length[index])

    def batches(self, epoch_ns: int) -> Iterator[tuple[int, bytes]]:
        """When each comes, and its body; the agents of the nodes are not in step."""
        random = np.random.default_rng(self.seed + 1)
        nodes = -(-self.ranks // self.ranks_per_node)
        count = int(self.lasts_s * 1e9) // BATCH_NS
        due = random.integers(0, BATCH_NS, (nodes, 1)) + BATCH_NS * np.arange(count)
        due += random.integers(0, _LATE_NS, due.shape)
        order = sorted((int(due[node, n]), node, n) for node in range(nodes) for n in range(count))
        for when_ns, node, number in order:
            since_ns = int(due[node, number - 1]) if number else _SETTLE_NS - 1
            yield epoch_ns + when_ns, self._body(epoch_ns, node, number, since_ns, when_ns)

    def _body(self, epoch_ns: int, node: int, number: int, since_ns: int, when_ns: int) -> bytes:
        first = node * self.ranks_per_node
        mine = range(first, min(first + self.ranks_per_node, self.ranks))
        start, length, _, _ = self._made
        ends = start + length
        chosen = np.flatnonzero((ends > since_ns - _SETTLE_NS) & (ends <= when_ns - _SETTLE_NS))
        rows: list[list[Value]] = []
        for place, rank in enumerate(mine):
            rows += ([place, *row] for row in self._rows(rank, chosen, epoch_ns))
        last_ns = int(ends[chosen[-1]]) + epoch_ns if len(chosen) else 0
        header = {
            "protocol": list(PROTOCOL),
            "agent": f"agent{node}",
            "epoch": epoch_ns,
            "sequence": number + 1,
            "node": f"node{node}",
            "made_ns": epoch_ns + when_ns,
            "places": [
                {
                    "job": "job",
                    "rank": rank,
                    "process": place,
                    "gpu": place,
                    "last_step_ns": last_ns,
                }
                for place, rank in enumerate(mine)
            ],
            "jobs": [{"job": "job", "started_ns": epoch_ns, "world_size": self.ranks}],
        }
        return seal(header, {"steps": rows})

    def _rows(self, rank: int, chosen: Array, epoch_ns: int) -> list[list[int]]:
        start, length, own, saves = (
            self._made[0][chosen],
            self._made[1][chosen],
            self._made[2][:, chosen],
            self._made[3][:, chosen],
        )
        spent = length - own[rank] - saves[rank]
        wait = np.maximum(0, spent - (length - (own + saves).max(axis=0)))
        is_told = np.full(len(chosen), self.sees_devices)
        is_told |= (chosen < _ALL_TOLD) | (chosen % self._told_every(rank) == 0)
        parts = np.zeros((len(chosen), len(PARTS)), np.int64)
        parts[:, _PART["compute"]] = own[rank] + np.where(is_told, 0, spent)
        parts[:, _PART["communication"]] = np.where(is_told, spent, 0)
        known = np.full(len(chosen), _OF_A_DEVICE if self.sees_devices else _OF_A_HOST)
        if self.sees_devices:
            parts[:, _PART["checkpoint"]] = saves[rank]
        else:
            known |= np.where(is_told, WAIT_KNOWN, 0)
        columns = (chosen, start + epoch_ns, length, *parts.T, np.where(is_told, wait, 0), known)
        table: list[list[int]] = np.stack(columns, axis=1).tolist()
        return table

    def _told_every(self, rank: int) -> int:
        """As the adapter of DDP does it, by the CPU time of the rank."""
        apart_ns = max(1000.0, float(np.median(self._made[2][rank])))
        every = 1
        while every * apart_ns < _TOLD_APART_NS:
            every *= 2
        return every


def _drift(random: np.random.Generator, shape: tuple[int, int]) -> Array:
    """Slow ups and downs of each rank, of deviation 1."""
    pushes = random.standard_normal(shape)
    found = np.zeros(shape)
    value = random.standard_normal(shape[0])
    for step in range(shape[1]):
        value = 0.98 * value + 0.2 * pushes[:, step]
        found[:, step] = value
    return found
