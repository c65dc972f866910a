"""The ratio of two sets of measurements with its confidence interval."""

from __future__ import annotations

import random
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

_RESAMPLES = 4000


@dataclass(frozen=True)
class Ratio:
    """on / off; `low` and `high` hold the true ratio with 95 % confidence."""

    value: float
    low: float
    high: float
    pairs: int


def paired_ratio(on: Sequence[float], off: Sequence[float], seed: int = 1) -> Ratio:
    """Of neighbours in time, by their median; bootstrapped over the pairs.

    Pairing takes out what drifts slowly (clock speed, neighbours on the machine); the median takes
    out single disturbances.
    """
    ratios = [a / b for a, b in zip(on, off, strict=True) if b > 0]
    if not ratios:
        raise ValueError("no pair of measurements")
    chance = random.Random(seed)
    medians = sorted(
        statistics.median(chance.choices(ratios, k=len(ratios))) for _ in range(_RESAMPLES)
    )
    return Ratio(
        statistics.median(ratios),
        medians[int(_RESAMPLES * 0.025)],
        medians[int(_RESAMPLES * 0.975) - 1],
        len(ratios),
    )
