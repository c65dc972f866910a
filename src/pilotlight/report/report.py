"""Everything that a report says, before anybody decides how it looks."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from pilotlight.recording.columns import Array
from pilotlight.recording.definitions import UNKNOWN
from pilotlight.recording.manifest import Manifest
from pilotlight.recording.recording import Recording
from pilotlight.recording.schema import MarkKind
from pilotlight.report import units
from pilotlight.report.counters import CounterValues, counter_values
from pilotlight.report.coverage import Coverage, coverage_of
from pilotlight.report.devices import Devices, devices_of
from pilotlight.report.flame import Flame, FunctionTime, flame_of, function_times, most_telling
from pilotlight.report.frameworks import Frameworks, frameworks_of
from pilotlight.report.garbage import GarbageTimes, garbage_times
from pilotlight.report.gpu_work import GpuWork, gpu_work_of
from pilotlight.report.losses import Losses, losses_of
from pilotlight.report.overhead import Overhead, overhead_of
from pilotlight.report.phases import PhaseTimes, phase_times
from pilotlight.report.ranges import RangeTimes, range_times
from pilotlight.report.steps import ProcessSteps, StepRows, step_rows, summarize_steps
from pilotlight.report.threads import (
    StateTimes,
    ThreadTimes,
    beside_children,
    process_times,
    telling_threads,
    thread_times,
    waiting_launchers,
)


@dataclass(frozen=True)
class ProcessFacts:
    """`how` it ended is one of exit, died, exec, gone, or running if nobody saw it end.

    `exit_code` is negative for a signal, None where nobody knows it.

    `detail_since_start_ns`: from there on detail tells, before it only windows do. `sampled_ratio`
    is the part of its life for which its main thread has samples; None: it has none at all.
    """

    process: int
    pid: int
    rank: int | None
    command: str
    how: str
    exit_code: int | None
    exception: str
    off: str
    start_since_start_ns: int
    duration_ns: int
    detail_since_start_ns: int
    sampled_ratio: float | None
    times: StateTimes | None

    @property
    def label(self) -> str:
        return f"rank {self.rank}" if self.rank is not None else f"pid {self.pid}"

    @property
    def end(self) -> str:
        """In words: with the exit code or signal, the exception, and why the probe was off."""
        text = self.how
        if self.exit_code is not None and self.exit_code < 0:
            text = units.signal_name(-self.exit_code)
        elif self.exit_code:
            text = f"exit {self.exit_code}"
        if self.exception:
            text += f" ({self.exception})"
        return f"{text}, probe off: {self.off}" if self.off else text


@dataclass(frozen=True)
class Report:
    """`functions` are the most telling of `functions_found`, in which `functions_ns` were spent."""

    manifest: Manifest
    state: str
    duration_ns: int
    processes: tuple[ProcessFacts, ...]
    steps: tuple[ProcessSteps, ...]
    phases: tuple[PhaseTimes, ...]
    frameworks: Frameworks
    functions: tuple[FunctionTime, ...]
    functions_found: int
    functions_ns: int
    functions_of_threads: tuple[str, ...]
    functions_without: tuple[int, ...]
    threads: tuple[ThreadTimes, ...]
    ranges: tuple[RangeTimes, ...]
    garbage: tuple[GarbageTimes, ...]
    counters: tuple[CounterValues, ...]
    devices: Devices
    gpu: GpuWork
    losses: Losses
    overhead: Overhead
    flame: Flame
    step_rows: tuple[StepRows, ...]
    start_ns: int

    def label(self, process: int) -> str:
        """How a process is called in this report."""
        for facts in self.processes:
            if facts.process == process:
                return facts.label
        return f"process {process}"


def report_of(recording: Recording) -> Report:
    coverage = coverage_of(recording)
    rows = step_rows(recording)
    flame = flame_of(recording, coverage)
    threads = thread_times(recording)
    steps = tuple(summarize_steps(mine, recording, coverage) for mine in rows)
    scope = telling_threads(threads, len(steps)) or frozenset(flame.threads)
    ranks = {one.start.process for one in recording.processes if one.rank is not None}
    workers = frozenset({one.process for one in steps} | ranks)
    launchers = waiting_launchers(threads, workers, beside_children(recording, coverage))
    functions = function_times(flame, scope, launchers)
    ranges = range_times(recording, coverage)
    garbage = garbage_times(recording, coverage)
    # Those of the GPU's provider are told with its work.
    counters = tuple(one for one in counter_values(recording) if not one.name.startswith("gpu/"))
    overhead = overhead_of(recording)
    processes = _processes(recording, coverage, threads)
    return Report(
        manifest=recording.manifest,
        state=recording.state,
        duration_ns=coverage.duration_ns,
        processes=processes,
        steps=steps,
        phases=phase_times(recording, coverage, rows),
        frameworks=frameworks_of(recording),
        functions=most_telling(functions),
        functions_found=len(functions),
        functions_ns=sum(one.self_ns for one in functions),
        functions_of_threads=tuple(sorted(scope)),
        functions_without=tuple(sorted(launchers)),
        threads=threads,
        ranges=ranges,
        garbage=garbage,
        counters=counters,
        devices=devices_of(recording, coverage.start_ns),
        gpu=gpu_work_of(recording),
        losses=losses_of(recording, coverage, rows),
        overhead=overhead,
        flame=flame,
        step_rows=tuple(rows),
        start_ns=coverage.start_ns,
    )


def _processes(
    recording: Recording, coverage: Coverage, threads: tuple[ThreadTimes, ...]
) -> tuple[ProcessFacts, ...]:
    times = process_times(recording, coverage)
    exceptions = _texts_of_marks(recording, MarkKind.EXIT)
    off = _texts_of_marks(recording, MarkKind.OFF)
    result = []
    for place, process in enumerate(recording.processes):
        index = process.start.process
        start_ns = int(coverage.process_start_ns[place])
        duration_ns = int(coverage.process_end_ns[place]) - start_ns
        from_ns = min(max(int(coverage.detail_from_ns[place]), start_ns), start_ns + duration_ns)
        main = [row.times.total_ns for row in threads if row.process == index and row.is_main]
        told_ns = start_ns + duration_ns - from_ns
        code = process.end.exit_code if process.end else None
        result.append(
            ProcessFacts(
                process=index,
                pid=process.start.pid,
                rank=process.rank,
                command=process.command,
                how=process.end.how if process.end else "running",
                exit_code=code,
                # A shell goes on after one, and may end well.
                exception="" if code == 0 else exceptions.get(index, ""),
                off=off.get(index, ""),
                start_since_start_ns=start_ns - coverage.start_ns,
                duration_ns=duration_ns,
                detail_since_start_ns=from_ns - coverage.start_ns,
                sampled_ratio=min(1.0, sum(main) / told_ns) if main and told_ns else None,
                times=times.get(index),
            )
        )
    return tuple(result)


def _texts_of_marks(recording: Recording, kind: MarkKind) -> dict[int, str]:
    """The name that the last mark of a kind has in each process."""
    marks = recording.detail("marks")
    mine = marks.where(marks["kind"] == kind)
    order: Array = np.argsort(mine["time_ns"], kind="stable")
    numbers = recording.names.find(mine["process"], mine["name"])
    texts = recording.names.texts
    return {
        int(mine["process"][row]): texts[int(numbers[row])]
        for row in order.tolist()
        if texts[int(numbers[row])] not in ("", UNKNOWN)
    }
