"""Ranks without device activity as windows: steps and the host's phases in place of kernels."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from pilotlight.insights.name_signs import COMPILES, LOADS, SAVES
from pilotlight.insights.online.window import (
    CHECKPOINT,
    COLLECTIVE,
    COMPILE,
    COMPUTE,
    GC,
    LOADER,
    RankWindow,
)
from pilotlight.insights.rank_wait import COLLECTIVE_LANE
from pilotlight.trace.interval import Intervals, union
from pilotlight.trace.trace import Kind, Trace

_NAMES: tuple[tuple[str, re.Pattern[str]], ...] = (
    (LOADER, LOADS),
    (CHECKPOINT, SAVES),
    (COMPILE, COMPILES),
    (COMPUTE, re.compile(r"^(?:forward|backward|optimizer)$", re.IGNORECASE)),
    (COLLECTIVE, re.compile(r"^communication$|^nccl:|^gloo:|^c10d::", re.IGNORECASE)),
)


def windows_of(traces: Sequence[Trace]) -> list[RankWindow]:
    """A window a rank that has steps. A part is there if any rank has a span of it: then the others
    really had none."""
    ranks = [trace for trace in traces if len(trace.steps)]
    parts = [host_parts(trace) for trace in ranks]
    known = {name for each in parts for name, intervals in each.items() if len(intervals)}
    found = []
    for trace, each in zip(ranks, parts, strict=True):
        start_ns = trace.steps.start_ns
        end_ns = start_ns + trace.steps.duration_ns
        columns = {
            name: each[name].within_ns(start_ns, end_ns).astype(np.float64).tolist()
            for name in sorted(known)
        }
        found.append(
            RankWindow(
                trace.rank,
                trace.steps.number.tolist(),
                trace.steps.duration_ns.astype(np.float64).tolist(),
                columns,
            )
        )
    return found


def steady(windows: Sequence[RankWindow], least_steps: int) -> list[RankWindow]:
    """Without the first step, in which the profiler starts and code is compiled, where as many
    others are left."""
    return [
        replace(
            window,
            step=window.step[1:],
            step_ns=window.step_ns[1:],
            parts_ns={name: values[1:] for name, values in window.parts_ns.items()},
        )
        if len(window.step) > least_steps
        else window
        for window in windows
    ]


def host_parts(trace: Trace) -> dict[str, Intervals]:
    """When the host was in each part; operations of a group of ranks have lanes of their own."""
    spans = trace.spans
    host = np.isin(spans.kind, (Kind.ANNOTATION, Kind.OPERATOR, Kind.OTHER))
    together = np.array([lane.process == COLLECTIVE_LANE for lane in trace.lanes], np.bool_)
    in_group = together[spans.lane] if len(together) else np.zeros(len(spans), np.bool_)
    found = {}
    for name, pattern in _NAMES:
        wanted = np.array([bool(pattern.search(text[:200])) for text in trace.names], np.bool_)
        rows = wanted[spans.name] & host & ~in_group
        if name == COLLECTIVE:
            rows = rows | (in_group & host)
        found[name] = union(spans.start_ns[rows], spans.end_ns[rows])
    collects = spans.kind == Kind.GC
    found[GC] = union(spans.start_ns[collects], spans.end_ns[collects])
    return found
