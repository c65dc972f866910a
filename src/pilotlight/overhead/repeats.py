"""Whole runs with and without recording, taking turns; CPU time is compared."""

from __future__ import annotations

import os
import resource
import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from pilotlight.errors import PilotlightError
from pilotlight.launch import JobProcess
from pilotlight.overhead.interval import Ratio, paired_ratio


@dataclass(frozen=True)
class Runs:
    cpu: Ratio
    on_s: list[float]
    off_s: list[float]

    @property
    def added_s(self) -> float:
        """CPU time that recording adds to a run; in a short one it is the start of the probe."""
        return statistics.median(a - b for a, b in zip(self.on_s, self.off_s, strict=True))


def repeat(
    command: Sequence[str],
    environment: Mapping[str, str],
    times: int,
    progress: Callable[[str], None],
) -> Runs:
    """Runs the command `times` times each way; a run that fails ends the measurement."""
    off_environment = {key: value for key, value in os.environ.items() if key != "PILOTLIGHT"}
    on: list[float] = []
    off: list[float] = []
    for turn in range(times):
        # Off first, then on first, so that whatever warms up favours neither.
        order = ((off, off_environment), (on, environment))
        for seconds, chosen in order if turn % 2 == 0 else order[::-1]:
            progress(f"run {len(on) + len(off) + 1} of {2 * times}")
            seconds.append(_cpu_of(command, chosen))
    return Runs(paired_ratio(on, off), on, off)


def _cpu_of(command: Sequence[str], environment: Mapping[str, str]) -> float:
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    ended = JobProcess(command, environment).wait()
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    if ended.exit_code != 0:
        raise PilotlightError(f"the command ended with exit code {ended.exit_code}")
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
