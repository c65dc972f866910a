"""A step of a simulated job as the schedule that the simulated GPU plays.

A line for each thing that a step does, in the order of its launches: `host 1ms`, `copy h2d 16MB`,
`kernel NAME 90us [x N] [stream S]`, `sync`; `slow rank N F` for a rank whose kernels take longer.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby

import numpy as np

from pilotlight.insights.idle_time import loader_waits
from pilotlight.insights.job import job_of
from pilotlight.simulate.fault import Fault
from pilotlight.simulate.tape import COMPUTE_STREAM
from pilotlight.trace.trace import NONE, Kind, Trace

_SLOW = ("slow_gpu", "throttle")


def schedule(trace: Trace, faults: Sequence[Fault] = ()) -> str:
    """The middle step of this rank, without what waits for other ranks: the players run alone, so
    a collective is as long as its shortest stay."""
    middle = len(trace.steps) // 2
    start_ns = int(trace.steps.start_ns[middle])
    end_ns = start_ns + int(trace.steps.duration_ns[middle])
    lines = [f"# step {trace.steps.number[middle]} of {trace.source}"]
    waits_ns = int(loader_waits(trace).within_ns(np.array([start_ns]), np.array([end_ns]))[0])
    if waits_ns:
        lines.append(f"host {waits_ns / 1000:.3f}us")
    actions = _actions(trace, start_ns, end_ns)
    lines += [_line(text, len(list(same))) for text, same in groupby(actions)]
    lines.append("sync")
    lines += [f"slow rank {f.rank} {f.factor:g}" for f in faults if f.kind in _SLOW]
    return "\n".join(lines) + "\n"


def _actions(trace: Trace, start_ns: int, end_ns: int) -> list[str]:
    """Device spans by their launch, with lengths to the microsecond so that equals are joined."""
    (view,) = job_of([trace]).ranks
    launched = view.calls.start_ns[view.launch]
    shortest: dict[int, int] = {}
    columns = (view.device.name.tolist(), view.device.duration_ns.tolist())
    for name, length in zip(*columns, strict=True):
        shortest[name] = min(length, shortest.get(name, length))
    rows = np.flatnonzero((view.launch != NONE) & (launched >= start_ns) & (launched < end_ns))
    found = []
    for row in rows[np.argsort(launched[rows], kind="stable")].tolist():
        name, lane = int(view.device.name[row]), int(view.device.lane[row])
        if "DtoH" in trace.names[name]:
            continue  # the number that a step ends with: the `sync`
        if view.device.kind[row] == Kind.MEMCPY:
            found.append(f"copy h2d {max(1, int(view.device.bytes[row]) >> 20)}MB")
            continue
        text = trace.names[name].replace(" ", "_").replace("#", "_")
        beside = lane != COMPUTE_STREAM
        length = shortest[name] if beside else int(view.device.duration_ns[row])
        stream = f" stream {lane}" if beside else ""
        found.append(f"kernel {text} {max(1, round(length / 1000))}us{stream}")
    return found


def _line(text: str, times: int) -> str:
    if times == 1:
        return text
    head, found, stream = text.partition(" stream ")
    return f"{head} x {times}" + (f" stream {stream}" if found else "")
