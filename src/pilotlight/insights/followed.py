"""Steps as the device runs them, where the host is far ahead of it."""

from __future__ import annotations

import numpy as np

from pilotlight.trace.trace import NONE, Int64, Spans, Steps

AHEAD_STEPS = 0.5


def followed(steps: Steps, device: Spans, launch: Int64, calls: Spans) -> Steps:
    """The steps as they are unless, after the last of them, the device goes on for half a step or
    more: then each ends with the last span that was launched in it, for the host only queued the
    work and its steps tell nothing of how long they take. Begins would not do: a copy ahead of its
    step on a stream of its own would leave to the last step all that the device is behind."""
    if not len(steps) or not len(device) or not len(calls):
        return steps
    ends_ns = steps.start_ns + steps.duration_ns
    last_ns = int(device.end_ns.max())
    if last_ns - int(ends_ns[-1]) < AHEAD_STEPS * float(np.median(steps.duration_ns)):
        return steps
    launched_ns = np.where(launch == NONE, NONE, calls.start_ns[launch])
    step = np.searchsorted(steps.start_ns, launched_ns, side="right") - 1
    inside = (launched_ns != NONE) & (step >= 0) & (launched_ns < ends_ns[step.clip(min=0)])
    if not np.bincount(step[inside], minlength=len(steps)).all():
        return steps
    first_of_ns = np.full(len(steps), last_ns)
    np.minimum.at(first_of_ns, step[inside], device.start_ns[inside])
    last_of_ns = np.zeros(len(steps), np.int64)
    np.maximum.at(last_of_ns, step[inside], device.end_ns[inside])
    # Where a step goes on beside the next on another stream its begin tells more.
    for bounds_ns in (np.append(first_of_ns[0], last_of_ns), np.append(first_of_ns, last_ns)):
        if (np.diff(bounds_ns) > 0).all():
            return Steps(steps.number, bounds_ns[:-1], np.diff(bounds_ns))
    return steps
