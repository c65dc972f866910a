"""Joins the ends of arrows."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from pilotlight.trace.trace import NONE, Flows, Kind, Spans, no_flows

_START, _FINISH = ord("s"), ord("f")
_ON_DEVICE = (Kind.KERNEL, Kind.MEMCPY, Kind.MEMSET, Kind.SYNC)


def launch_arrows(spans: Spans) -> NDArray[np.int64]:
    """By span the number of the arrow that begins or ends there; 0: none.

    An arrow leads from a call to the first thing that it started on a device.
    """
    known = np.flatnonzero(spans.correlation != NONE)
    known = known[np.argsort(spans.start_ns[known], kind="stable")]
    on_device = np.isin(spans.kind[known], _ON_DEVICE)
    calls, started = known[~on_device], known[on_device]
    _, first_call = np.unique(spans.correlation[calls], return_index=True)
    _, first_started = np.unique(spans.correlation[started], return_index=True)
    calls, started = calls[first_call], started[first_started]
    both, of_calls, of_started = np.intersect1d(
        spans.correlation[calls], spans.correlation[started], True, return_indices=True
    )
    arrows = np.zeros(len(spans), np.int64)
    for rows in (calls[of_calls], started[of_started]):
        arrows[rows] = np.arange(1, len(both) + 1)
    return arrows


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
