"""Chrome traces into which a tool put all ranks of a job: their processes are called by them."""

from __future__ import annotations

import re
from dataclasses import fields, replace

import numpy as np

from pilotlight.trace.kineto_detail import KinetoDetail
from pilotlight.trace.several_devices import of_rows
from pilotlight.trace.step import steps_of
from pilotlight.trace.trace import NONE, Bool, Flows, Trace, no_counters

_RANK = re.compile(r"^rank[ _-]?(\d{1,6})(?!\d)", re.IGNORECASE)


def by_rank(trace: Trace) -> tuple[Trace, ...]:
    """A trace for each rank that processes are called by; the same trace if there is one. What is
    of no such process stays with the first."""
    numbers = {
        process: int(match.group(1))
        for process, name in trace.processes.items()
        if (match := _RANK.match(name))
    }
    if trace.rank != NONE or len(set(numbers.values())) < 2:
        return (trace,)
    rank_of_lane = np.array([numbers.get(lane.process, NONE) for lane in trace.lanes], np.int64)
    ranks = np.unique(rank_of_lane[trace.spans.lane])
    ranks = ranks[ranks != NONE]
    if len(ranks) < 2:
        return (trace,)
    rank_of_lane[rank_of_lane == NONE] = ranks[0]
    first, *others = (_of_lanes(trace, rank_of_lane == rank, int(rank)) for rank in ranks)
    return first, *(replace(one, counters=no_counters(), problems=()) for one in others)


def _of_lanes(trace: Trace, lanes: Bool, rank: int) -> Trace:
    part = of_rows(trace, lanes[trace.spans.lane])
    kept = lanes[trace.flows.start_lane]
    return replace(
        part,
        rank=rank,
        steps=steps_of(part.names, part.spans),
        flows=Flows(*(getattr(trace.flows, column.name)[kept] for column in fields(Flows))),
        detail=KinetoDetail(part.names, part.lanes, part.spans, part.arguments),
    )
