"""Rows of columns as numbers of what is distinct among them."""

from __future__ import annotations

from typing import Any

import numpy as np

from pilotlight.trace.trace import NONE, Int64

MOST_FLAGS = 8_000_000


def distinct(*columns: Any) -> tuple[Int64, Int64]:
    """A row of each distinct combination, and the number of its combination for each row. Values
    are NONE or greater."""
    rows = len(columns[0])
    group, count = np.zeros(rows, np.int64), 1
    for column in columns:
        place, values = _numbered(column.astype(np.int64) - NONE)
        group, count = _numbered(group * values + place)
    firsts = np.empty(count if rows else 0, np.int64)
    firsts[group[::-1]] = np.arange(rows - 1, -1, -1)
    return firsts, group


def places(known: Int64, wanted: Int64) -> Int64:
    """Where in `known` each wanted value is, the last if it is there twice; NONE if it is not."""
    if not len(known):
        return np.full(len(wanted), NONE, np.int64)
    order = np.argsort(known, kind="stable")
    place = np.searchsorted(known[order], wanted, side="right") - 1
    found: Int64 = order[place]  # a place of -1 is checked like the others
    return np.where(known[found] == wanted, found, NONE)


def _numbered(values: Int64) -> tuple[Int64, int]:
    """Values from 0 as numbers without holes, in their order, and how many there are."""
    most = int(values.max(initial=0))
    if most > MOST_FLAGS:
        found, numbers = np.unique(values, return_inverse=True)
        return numbers, len(found)
    # Without sorting, which would take most of the time of reading.
    flags = np.zeros(most + 1, np.bool_)
    flags[values] = True
    number_of = np.cumsum(flags) - 1
    return number_of[values], int(number_of[-1]) + 1
