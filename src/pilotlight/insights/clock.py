"""Whether a host and its devices count time alike."""

from __future__ import annotations

import numpy as np

from pilotlight.insights.job import Job
from pilotlight.trace.problem import Problem
from pilotlight.trace.trace import NONE

# No launch waits that long: such times are of another clock or in another unit.
APART_NS = 3_600_000_000_000


def clock_problems(job: Job) -> list[Problem]:
    """One for each rank whose device spans are hours from the calls that launched them."""
    found = []
    for view in job.ranks:
        known = view.launch != NONE
        if not known.any():
            continue
        apart_ns = view.device.start_ns[known] - view.calls.start_ns[view.launch[known]]
        if abs(float(np.median(apart_ns))) > APART_NS:
            found.append(
                Problem(
                    view.trace.source,
                    f"rank {view.rank}",
                    f"kernels begin {abs(float(np.median(apart_ns))) / APART_NS:.0f} hours from"
                    " the calls that launched them: two clocks, or microseconds beside"
                    " nanoseconds; do not trust times that compare host and device",
                )
            )
    return found
