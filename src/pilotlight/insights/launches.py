"""How launches reach the device: latency, queue, and time without a kernel."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from pilotlight.insights.rank import RankView
from pilotlight.trace.interval import union
from pilotlight.trace.trace import NONE, Kind


@dataclass(frozen=True)
class Launches:
    """Of one rank. `issue_ns`: from the end of the launch call to the start of the kernel, near 0
    where the device waits for the host. `queue_length`: launched and not finished, when the host
    launches the next. `short_kernels`: shorter than their own launch call. `void_ratio`: the part
    of the steady time without a kernel. None: no launch calls in the trace."""

    rank: int
    kernels: int
    launched: int
    median_call_ns: float | None
    median_issue_ns: float | None
    median_queue_length: float | None
    longest_queue: int
    short_kernels: int
    void_ratio: float


def launches(view: RankView) -> Launches:
    device = view.device.take(view.device.kind == Kind.KERNEL)
    rows = view.launch[view.device.kind == Kind.KERNEL]
    known = rows != NONE
    calls = view.calls.take(rows[known])
    kernels = device.take(known)
    start_ns, end_ns = view.steady_window()
    busy_ns = int(
        union(device.start_ns, device.end_ns).within_ns(np.array([start_ns]), np.array([end_ns]))[0]
    )
    void = 1 - busy_ns / max(1, end_ns - start_ns)
    if not len(calls):
        return Launches(view.rank, len(device), 0, None, None, None, 0, 0, void)
    times = np.sort(calls.start_ns)
    waiting = np.arange(1, len(times) + 1) - np.searchsorted(
        np.sort(kernels.end_ns), times, "right"
    )
    issue = np.maximum(kernels.start_ns - calls.end_ns, 0)
    return Launches(
        view.rank,
        len(device),
        len(calls),
        float(np.median(calls.duration_ns)),
        float(np.median(issue)),
        float(np.median(waiting)),
        int(waiting.max()),
        int((kernels.duration_ns < calls.duration_ns).sum()),
        void,
    )
