"""Where a series of numbers changed its level for good."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from pilotlight.trace.trace import Float64

LEAST_SEGMENT = 5
PERMUTATIONS = 400
CHANCE = 0.005


@dataclass(frozen=True)
class Level:
    """From `begin` to before `end` the values vary around `typical`."""

    begin: int
    end: int
    typical: float


def levels(values: Float64) -> tuple[Level, ...]:
    """Splits at the point where the ranks of the values differ most, while that is more than
    chance: medians and ranks, so that single outliers make no level of their own."""
    found: list[Level] = []
    _split(np.asarray(values, np.float64), 0, np.random.default_rng(0), found)
    return tuple(found)


def _split(values: Float64, offset: int, random: np.random.Generator, found: list[Level]) -> None:
    place = _change(values, random)
    if place is None:
        typical = float(np.median(values)) if len(values) else 0.0
        found.append(Level(offset, offset + len(values), typical))
        return
    _split(values[:place], offset, random, found)
    _split(values[place:], offset + place, random, found)


def _change(values: Float64, random: np.random.Generator) -> int | None:
    if len(values) < 2 * LEAST_SEGMENT:
        return None
    # Equal values share the mean of their ranks: otherwise their order would look like a trend.
    _, place_of, counts = np.unique(values, return_inverse=True, return_counts=True)
    ranks = (np.cumsum(counts) - (counts + 1) / 2)[place_of.ravel()]
    ranks -= ranks.mean()
    strength = _strengths(ranks[np.newaxis])[0]
    place = int(strength.argmax())
    shuffled = random.permuted(np.broadcast_to(ranks, (PERMUTATIONS, len(ranks))), axis=1)
    by_chance = _strengths(shuffled).max(axis=1)
    if (np.count_nonzero(by_chance >= strength[place]) + 1) / (PERMUTATIONS + 1) > CHANCE:
        return None
    return place + LEAST_SEGMENT


def _strengths(ranks: Float64) -> Float64:
    """How far the sums before each possible place are from what chance would give."""
    count = ranks.shape[1]
    before = np.arange(LEAST_SEGMENT, count - LEAST_SEGMENT + 1)
    sums = np.abs(np.cumsum(ranks, axis=1)[:, before - 1])
    strengths: Float64 = sums / np.sqrt(before * (count - before))
    return strengths
