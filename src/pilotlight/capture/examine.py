"""Reads what was captured: which steps are in it, and whether the ranks have the same ones."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from statistics import median

import numpy as np

from pilotlight.capture.collect import Collected
from pilotlight.capture.manifest import Captured, Step
from pilotlight.capture.plan import STEPS_BEFORE
from pilotlight.capture.request import FAILED
from pilotlight.capture.target import KINETO
from pilotlight.trace.kineto import ALLOCATED, NO_EVENT
from pilotlight.trace.trace import Int64, Kind, Trace
from pilotlight.trace.trace_file import read_file

_OPTIMIZER = "Optimizer.step"
_DID_NOTHING = "no operator of torch ran while it was traced: it hangs, waits, or has just begun"
# Times before this are no wall clock: they count from the start of the profiler.
_FIRST_WALL_NS = 10**17


def examine(
    collected: Collected,
    folder: Path,
    node: str,
    first_step: int | None,
    recorded: Sequence[Step],
) -> tuple[Captured, tuple[str, ...]]:
    """What the file holds. `recorded` are the steps that the probe saw in that process."""
    if collected.file is None:
        return Captured(collected.answered, node, None), ()
    result = read_file(folder / collected.file)
    problems = tuple(str(problem) for problem in result.problems)
    if [problem.text for problem in result.problems] == [NO_EVENT]:
        return Captured(
            replace(collected.answered, state=FAILED, reason=_DID_NOTHING), node, None
        ), ()
    if not result.traces:
        return Captured(collected.answered, node, collected.file), problems
    trace = result.traces[0]
    start_ns = int(trace.spans.start_ns.min())
    offset_ns = 0
    if start_ns < _FIRST_WALL_NS and collected.answered.start_ns is not None:
        offset_ns = collected.answered.start_ns
    window_ns = (start_ns + offset_ns, int(trace.spans.end_ns.max()) + offset_ns)
    steps: tuple[Step, ...] = ()
    if collected.answered.how == KINETO and first_step is not None:
        steps = as_recorded(optimizer_steps(trace, first_step), recorded)
    return (
        Captured(
            collected.answered,
            node,
            collected.file,
            offset_ns,
            window_ns,
            len(trace.spans),
            steps or steps_within(recorded, window_ns),
            any(name.startswith(ALLOCATED) for name in trace.names),
        ),
        problems,
    )


def optimizer_steps(trace: Trace, first_step: int) -> tuple[Step, ...]:
    """A trace by steps begins at the end of an optimizer step; each further end is a border."""
    mine = np.array([name.startswith(_OPTIMIZER) for name in trace.names], np.bool_)
    rows = trace.name_mask(mine) & (trace.spans.kind == Kind.ANNOTATION)
    if not rows.any():
        return ()
    ends: Int64 = np.unique(trace.spans.end_ns[rows])
    borders = [int(trace.spans.start_ns.min()), *(int(end) for end in ends)]
    return tuple(
        Step(first_step + number, start, end - start)
        for number, (start, end) in enumerate(pairwise(borders))
    )


def as_recorded(steps: Sequence[Step], recorded: Sequence[Step]) -> tuple[Step, ...]:
    """The steps with the numbers that they have by the probe, which saw them begin.

    Kineto begins later than it was asked to where its own thread had to wait for a processor, and
    does not say so. It counts calls of optimizers: where a step has several, or none because a
    scaler left it out, those steps are given that the trace holds as a whole.
    """
    if not steps or not recorded:
        return tuple(steps)
    borders = [*(step.start_ns for step in steps), steps[-1].start_ns + steps[-1].duration_ns]
    near_ns = min(step.duration_ns for step in steps) // 2
    starts = np.array([step.start_ns for step in recorded], np.int64)
    found = []
    for place, border_ns in enumerate(borders):
        nearest = int(np.abs(starts - border_ns).argmin())
        if abs(int(starts[nearest]) - border_ns) <= near_ns:
            found.append((place, recorded[nearest].number))
    if len(found) < 2 or found[-1][1] == found[0][1]:
        return tuple(steps)
    (place, first), (last_place, last) = found[0], found[-1]
    if last_place - place != last - first:
        return tuple(step for step in recorded if first <= step.number < last)
    first -= place
    return tuple(replace(step, number=first + place) for place, step in enumerate(steps))


def steps_within(recorded: Sequence[Step], window_ns: tuple[int, int]) -> tuple[Step, ...]:
    """The steps that lie in the window as a whole."""
    return tuple(
        step
        for step in recorded
        if window_ns[0] <= step.start_ns and step.start_ns + step.duration_ns <= window_ns[1]
    )


def common_steps(processes: Sequence[Captured]) -> list[Captured]:
    """Of traces by time, which end in the midst of a step: only the steps that all of them have.

    All of each where they have none in common: processes that do not step together.
    """
    numbers = [{step.number for step in p.steps} for p in processes if p.file is not None]
    common = set.intersection(*numbers) if numbers else set()
    if not common:
        return list(processes)
    return [
        replace(process, steps=tuple(step for step in process.steps if step.number in common))
        for process in processes
    ]


def same_steps(processes: Sequence[Captured]) -> bool | None:
    """Whether all that have a trace have the same step numbers at the same time.

    Times too: a rank that got its request late counts the right number of steps, but later ones.
    They need no look where all are known to have had it before the first step: a busy machine may
    keep one for longer than a step takes.
    """
    traced = [process for process in processes if process.file is not None]
    numbers = [tuple(s.number for s in p.steps) for p in traced]
    if not numbers or not all(numbers):
        return None
    if len(set(numbers)) == 1 and all(_was_in_time(process) for process in traced):
        return True
    skew = skew_ns(processes)
    longest_ns = median(step.duration_ns for p in processes for step in p.steps)
    return len(set(numbers)) == 1 and (skew is None or skew <= longest_ns)


def _was_in_time(process: Captured) -> bool:
    done = process.answered.steps_with_request
    return done is not None and done + STEPS_BEFORE <= process.steps[0].number


def skew_ns(processes: Sequence[Captured]) -> int | None:
    starts = [process.window_ns[0] for process in processes if process.window_ns is not None]
    return max(starts) - min(starts) if starts else None


def recorded_steps(recording: Path) -> Mapping[int, list[Step]]:
    """The steps of each process (by pid) of a recording, on the wall clock."""
    from pilotlight.recording.recording import Recording

    opened = Recording.open(recording)
    pair = opened.manifest.clocks[-1]
    to_wall_ns = pair.realtime_ns - pair.monotonic_ns
    columns = opened.detail("steps")
    pids = {process.start.process: process.start.pid for process in opened.processes}
    found: dict[int, list[Step]] = {}
    for process, number, start, duration in zip(
        columns["process"].tolist(),
        columns["step"].tolist(),
        columns["start_ns"].tolist(),
        columns["duration_ns"].tolist(),
        strict=True,
    ):
        step = Step(number, start + to_wall_ns, duration)
        found.setdefault(pids.get(process, 0), []).append(step)
    return found
