"""The ratio of two sets of measurements with its confidence interval, and what it means."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

# Fewer pairs say nothing with that confidence: the truth is outside all of five once in sixteen.
LEAST_PAIRS = 6
_SMALL_RATIO = 1.01


@dataclass(frozen=True)
class Ratio:
    """on / off; `low` and `high` hold the true ratio with 95 % confidence."""

    value: float
    low: float
    high: float
    pairs: int


def paired_ratio(on: Sequence[float], off: Sequence[float]) -> Ratio:
    """Of neighbours in time, by their median; the interval is that of its order statistics.

    Pairing takes out what drifts slowly (clock speed, neighbours on the machine); the median takes
    out single disturbances.
    """
    ratios = sorted(a / b for a, b in zip(on, off, strict=True) if b > 0)
    if not ratios:
        raise ValueError("no pair of measurements")
    outside = _left_out(len(ratios))
    return Ratio(statistics.median(ratios), ratios[outside], ratios[-1 - outside], len(ratios))


def _left_out(count: int) -> int:
    """How many of the smallest, and of the largest, the interval of the median may leave out."""
    left_out, tail = 0, 1
    while True:
        tail += math.comb(count, left_out + 1)
        # Each side has tail / 2 ** count of the chance: together no more than 5 %.
        if 2 * 20 * tail > 1 << count:
            return left_out
        left_out += 1


def meaning(ratio: Ratio, what: str) -> str:
    """One sentence for somebody who does not read intervals."""
    low, high = (100 * (value - 1) for value in (ratio.low, ratio.high))
    if ratio.pairs < LEAST_PAIRS:
        return f"{ratio.pairs} pairs are too few for an interval: {LEAST_PAIRS} are needed"
    if ratio.low > 1:
        return f"recording costs {low:.2g} to {high:.2g} % of the {what}"
    if ratio.high <= _SMALL_RATIO:
        return f"recording costs nothing that can be measured, at most {max(high, 0):.2g} %"
    return (
        f"noise hides what recording costs: at most {high:.2g} % of the {what}; a longer run or a "
        "quieter machine tells more"
    )
