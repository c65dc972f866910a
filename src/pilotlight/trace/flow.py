"""Joins the ends of arrows."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from pilotlight.trace.trace import Flows, no_flows

_START, _FINISH = ord("s"), ord("f")


def paired(ends: tuple[NDArray[Any], ...], base_ns: int) -> Flows:
    """An arrow from each end to the next with the same name and number; none ends at a start.

    `ends` are the columns phase, name, lane, id and time_ns.
    """
    phase, name, lane, number, time_ns = ends
    if len(phase) < 2:
        return no_flows()
    step = np.where(phase == _START, 0, np.where(phase == _FINISH, 2, 1))
    order = np.lexsort((step, time_ns, number, name))
    first, second = order[:-1], order[1:]
    same = (name[first] == name[second]) & (number[first] == number[second])
    joined = same & (phase[first] != _FINISH) & (phase[second] != _START)
    first, second = first[joined], second[joined]
    return Flows(
        name[first],
        time_ns[first] + base_ns,
        lane[first],
        time_ns[second] + base_ns,
        lane[second],
    )
