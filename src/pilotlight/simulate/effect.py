"""What faults and harmless changes do to the times of a job."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from pilotlight.simulate.fault import Fault
from pilotlight.simulate.job import JobShape
from pilotlight.simulate.layout import data_group, place_of

GC_EVERY_STEPS = 3
CHECKPOINT_EVERY_STEPS = 4
FREEZE_EVERY_STEPS = 4
SHORT_KERNEL_US = 4.0
NOMINAL_CLOCK_MHZ = 1755.0


class Effects:
    """All answers are of one job; without faults they leave everything as it is."""

    def __init__(self, shape: JobShape, faults: Sequence[Fault]) -> None:
        self.shape = shape
        self._faults = {fault.kind: fault for fault in faults}
        random = np.random.default_rng([shape.seed, 7])
        self._lengths = random.lognormal(0.0, 1.0, (shape.steps, shape.ranks))
        self._jitter = random.exponential(1.0, (shape.steps, shape.ranks))

    def __contains__(self, kind: str) -> bool:
        return kind in self._faults

    def factor(self, kind: str) -> float:
        return self._faults[kind].factor if kind in self._faults else 1.0

    def added_us(self, kind: str) -> float:
        """What makes a step as long as the fault's factor says."""
        return (self.factor(kind) - 1) * self.shape.device_step_us

    def hits(self, kind: str, rank: int) -> bool:
        fault = self._faults.get(kind)
        return fault is not None and fault.rank == rank

    def kernel_factor(self, rank: int, name: str, step: int) -> float:
        factor = self.factor("power_cap")
        if self.hits("slow_gpu", rank):
            factor *= self.factor("slow_gpu")
        if self.hits("throttle", rank) and ("nvjet" in name or "flash" in name):
            factor *= self.factor("throttle")
        if step >= self.shape.steps // 2:
            factor *= self.factor("batch_size")
        if step == 0:
            factor *= self.factor("warm_up")
        if "length_imbalance" in self and "optim" not in name.lower():
            factor *= self._length_factor(rank, step)
        if "expert" in name:
            factor *= self._expert_factor(rank)
        return factor

    def _length_factor(self, rank: int, step: int) -> float:
        """Mean 1 over the ranks; the longest is as many times the mean as the fault says."""
        row = self._lengths[step]
        above = row / row.mean() - 1
        factor = 1 + (self.factor("length_imbalance") - 1) * above[rank] / above.max()
        return max(0.2, float(factor))

    def _expert_factor(self, rank: int) -> float:
        """The tokens of a group are divided otherwise, not more."""
        fault = self._faults.get("moe_skew")
        if fault is None:
            return 1.0
        mine, hot = place_of(self.shape, rank), place_of(self.shape, fault.rank)
        group = self.shape.experts
        together = (mine.stage, mine.tensor, mine.data // group) == (
            hot.stage,
            hot.tensor,
            hot.data // group,
        )
        if not together:
            return 1.0
        if rank == fault.rank:
            return fault.factor
        return max(0.1, 1 - (fault.factor - 1) / (group - 1))

    def loader_us(self, rank: int, step: int) -> float:
        added = self.added_us("loader") if "loader" in self else 0.0
        if "loader_jitter" in self:
            worst = self._jitter[step].max()
            added += 2 * self.added_us("loader_jitter") * self._jitter[step, rank] / worst
        if self.hits("storage", rank) and step % FREEZE_EVERY_STEPS == 1:
            added += FREEZE_EVERY_STEPS * self.added_us("storage")
        return float(added)

    def gc_us(self, rank: int, step: int) -> float:
        if "gc" not in self or (step + rank) % GC_EVERY_STEPS:
            return 0.0
        return self.added_us("gc") * GC_EVERY_STEPS

    def recompile_us(self, step: int) -> float:
        """A burst in the middle: two steps with new shapes."""
        middle = self.shape.steps // 2
        if "recompile" not in self or step not in (middle, middle + 1):
            return 0.0
        return self.added_us("recompile") * self.shape.steps / 2

    def checkpoint_us(self, step: int) -> float:
        if "checkpoint" not in self or step % CHECKPOINT_EVERY_STEPS != 2:
            return 0.0
        return self.added_us("checkpoint") * CHECKPOINT_EVERY_STEPS

    def host_factor(self, rank: int) -> float:
        """A core that others use too: all that the host does takes longer, beyond what the device
        hides."""
        if not self.hits("cpu_contention", rank):
            return 1.0
        shape = self.shape
        kernels = 15 * shape.layers // shape.pipeline * shape.micro_batches
        hidden = shape.device_step_us / (kernels * (shape.host_op_us + shape.launch_us))
        return max(1.0, hidden * self.factor("cpu_contention"))

    def network_factor(self, ranks: Sequence[int]) -> float:
        factor = self.factor("slow_network")
        fault = self._faults.get("slow_nic")
        if fault is not None and fault.rank in ranks:
            factor *= fault.factor
        link = self._faults.get("slow_link")
        if link is not None and tuple(ranks) == data_group(self.shape, link.rank).ranks:
            factor *= link.factor
        return factor

    def extra_stage_us(self, rank: int) -> float:
        """Work that the stage of the fault's rank has besides its layers, for one micro-batch."""
        fault = self._faults.get("stage_imbalance")
        if fault is None:
            return 0.0
        if place_of(self.shape, fault.rank).stage != place_of(self.shape, rank).stage:
            return 0.0
        return (fault.factor - 1) * self.shape.device_step_us / self.shape.micro_batches

    def counters(self, rank: int) -> dict[str, float]:
        """What an agent would read of the rank's device and host."""
        clock = NOMINAL_CLOCK_MHZ / self.factor("power_cap")
        held = self.hits("throttle", rank)
        if held:
            clock /= self.factor("throttle")
        power_capped = 100.0 if "power_cap" in self else 0.0
        return {
            "gpu0 sm_clock": clock,
            "gpu0 held_by_temperature": 80.0 if held else 0.0,
            "gpu0 held_by_power": power_capped,
            "gpu0 utilization": 99.0,
            "cgroup throttled": 40.0 if self.hits("cpu_contention", rank) else 0.0,
        }
