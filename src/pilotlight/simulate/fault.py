"""Faults and harmless changes that a simulated job can have."""

from __future__ import annotations

from dataclasses import dataclass

from pilotlight.errors import UsageError
from pilotlight.simulate.hang import HANG_FAULTS
from pilotlight.simulate.job import JobShape

# The cause that a diagnosis should name, and whether one rank is at fault.
FAULTS: dict[str, tuple[str, bool]] = {
    "slow_gpu": ("slow_gpu", True),
    "throttle": ("slow_gpu", True),
    "slow_host": ("straggler", True),
    "cpu_contention": ("straggler", True),
    "gc": ("gc", False),
    "loader": ("loader", False),
    "loader_jitter": ("loader", False),
    "storage": ("loader", True),
    "sync": ("sync", False),
    "launch": ("launch", False),
    "recompile": ("recompile", False),
    "pageable": ("copies", False),
    "allocation": ("allocation", False),
    "checkpoint": ("checkpoint", False),
    "slow_network": ("exposed_communication", False),
    "slow_link": ("slow_link", False),
    "slow_nic": ("slow_link", True),
    "stage_imbalance": ("stage_imbalance", False),
    "length_imbalance": ("imbalance", False),
    "moe_skew": ("moe_imbalance", True),
}
# With the counters of devices and hosts the cause behind is known.
_WITH_COUNTERS = {"throttle": "throttle", "cpu_contention": "cpu_contention"}

TWINS = (
    "learning_rate", "eval_step", "warm_up", "batch_size", "power_cap", "clock_skew",
    "dropped_events",
)  # fmt: skip
# These two change the record of a job, not the job: every fault must be found under them too.
CONDITIONS = ("clock_skew", "dropped_events")


@dataclass(frozen=True)
class Fault:
    """`factor` scales what is at fault: a device's time, a transfer, or the step as a whole."""

    kind: str
    rank: int = 0
    factor: float = 1.5

    @property
    def is_of_one_rank(self) -> bool:
        return FAULTS[self.kind][1]

    @property
    def is_of_all_ranks(self) -> bool:
        """Then `rank` means nothing; a link has its group by it, a stage its number."""
        return not self.is_of_one_rank and self.kind not in ("slow_link", "stage_imbalance")

    def cause_in(self, shape: JobShape) -> str:
        if shape.counters and self.kind in _WITH_COUNTERS:
            return _WITH_COUNTERS[self.kind]
        return FAULTS[self.kind][0]

    def suits(self, shape: JobShape) -> bool:
        """Whether a job of this shape can have it, and tell it from others."""
        divided = shape.pipeline * shape.tensor
        if self.kind == "launch":
            return divided == 1 and shape.experts == 1 and shape.micro_batches == 1
        if self.kind == "slow_link":
            return divided >= 3 and shape.data >= 2
        if self.kind == "slow_nic":
            # Two links of a rank stand out among five or more.
            return shape.pipeline >= 3 and shape.data * shape.tensor * (shape.pipeline - 1) >= 5
        if self.kind == "stage_imbalance":
            return shape.pipeline >= 2
        if self.kind == "length_imbalance":
            return divided == 1 and shape.ranks >= 3
        if self.kind == "moe_skew":
            return shape.experts >= 2
        if self.kind == "slow_network":
            return divided == 1 and shape.experts == 1
        return True


def parse_fault(text: str, shape: JobShape) -> Fault:
    """`slow_gpu:rank=3,x=1.2`"""
    kind, _, rest = text.partition(":")
    if kind not in FAULTS and kind not in TWINS:
        known = ", ".join((*FAULTS, *TWINS, *HANG_FAULTS))
        raise UsageError(f"{text}: no such fault; one of {known}")
    values: dict[str, float] = {}
    for item in filter(None, rest.split(",")):
        name, _, number = item.partition("=")
        try:
            values[name] = float(number)
        except ValueError:
            raise UsageError(f"{text}: {item}: write rank=N or x=FACTOR") from None
    unknown = set(values) - {"rank", "x"}
    rank, factor = values.get("rank", 0.0), values.get("x", 1.5)
    if unknown or rank not in range(shape.ranks) or not 1 <= factor <= 100:
        raise UsageError(f"{text}: rank=0..{shape.ranks - 1} and x=1..100 are possible")
    fault = Fault(kind, int(rank), factor)
    if kind in FAULTS and not fault.suits(shape):
        raise UsageError(f"{text}: a job of this shape cannot have it (pipeline, tensor, experts)")
    return fault
