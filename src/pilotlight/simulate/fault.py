"""Faults and harmless changes that a simulated job can have."""

from __future__ import annotations

from dataclasses import dataclass

from pilotlight.errors import UsageError

# The cause that a diagnosis should name, and whether one rank is at fault.
FAULTS: dict[str, tuple[str, bool]] = {
    "slow_gpu": ("slow_gpu", True),
    "throttle": ("slow_gpu", True),
    "slow_host": ("straggler", True),
    "gc": ("gc", False),
    "loader": ("loader", False),
    "storage": ("loader", True),
    "sync": ("sync", False),
    "launch": ("launch", False),
    "pageable": ("copies", False),
    "allocation": ("allocation", False),
    "slow_link": ("exposed_communication", False),
}

TWINS = ("learning_rate", "eval_step", "warm_up", "batch_size", "power_cap")


@dataclass(frozen=True)
class Fault:
    """`factor` scales what is at fault: a device's time, a transfer, or the step as a whole."""

    kind: str
    rank: int = 0
    factor: float = 1.5

    @property
    def cause(self) -> str:
        return FAULTS[self.kind][0]

    @property
    def is_of_one_rank(self) -> bool:
        return FAULTS[self.kind][1]


def parse_fault(text: str, ranks: int) -> Fault:
    """`slow_gpu:rank=3,x=1.2`"""
    kind, _, rest = text.partition(":")
    if kind not in FAULTS and kind not in TWINS:
        raise UsageError(f"{text}: no such fault; one of {', '.join((*FAULTS, *TWINS))}")
    values: dict[str, float] = {}
    for item in filter(None, rest.split(",")):
        name, _, number = item.partition("=")
        try:
            values[name] = float(number)
        except ValueError:
            raise UsageError(f"{text}: {item}: write rank=N or x=FACTOR") from None
    unknown = set(values) - {"rank", "x"}
    rank, factor = int(values.get("rank", 0)), values.get("x", 1.5)
    if unknown or not 0 <= rank < ranks or not 1 <= factor <= 100:
        raise UsageError(f"{text}: rank=0..{ranks - 1} and x=1..100 are possible")
    return Fault(kind, rank, factor)
