"""What each thread was doing when it was sampled."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from pilotlight.recording.columns import Array, group
from pilotlight.recording.recording import MAIN_THREAD, Recording
from pilotlight.recording.schema import State, WindowKind
from pilotlight.report.coverage import NEVER_NS, Coverage

OWN_THREAD = "pilotlight"
_WAITING_RATIO = 0.25
_BUSY_RATIO = 0.1
_LAUNCHER_RATIO = 0.1
_START_RATIO = 0.5


@dataclass(frozen=True)
class StateTimes:
    """Time by state of the thread, summed over threads."""

    running_ns: int
    waiting_ns: int
    gil_wait_ns: int
    disk_ns: int
    unknown_ns: int

    @property
    def total_ns(self) -> int:
        known = self.running_ns + self.waiting_ns + self.gil_wait_ns + self.disk_ns
        return known + self.unknown_ns

    @classmethod
    def of(cls, state: Array, weight_ns: Array) -> StateTimes:
        states = np.where(state <= max(State), state, State.UNKNOWN).astype(np.int64)
        sums = np.bincount(states, weight_ns, len(State)).astype(np.int64).tolist()
        return cls(
            running_ns=sums[State.RUNNING],
            waiting_ns=sums[State.WAITING],
            gil_wait_ns=sums[State.GIL_WAIT],
            disk_ns=sums[State.DISK],
            unknown_ns=sums[State.UNKNOWN],
        )


@dataclass(frozen=True)
class ThreadTimes:
    process: int
    thread: int
    name: str
    is_main: bool
    samples: int
    times: StateTimes


def thread_times(recording: Recording) -> tuple[ThreadTimes, ...]:
    """Every thread in the detail that is still there, the busiest first."""
    samples = recording.detail("samples")
    found, position = group(samples["process"], samples["thread"])
    order = np.argsort(position, kind="stable")
    bounds = np.searchsorted(position[order], np.arange(found[0].size + 1))
    result = []
    for index, (process, thread) in enumerate(
        zip(found[0].tolist(), found[1].tolist(), strict=True)
    ):
        rows = order[bounds[index] : bounds[index + 1]]
        name = recording.thread_names.get((process, thread), "")
        result.append(
            ThreadTimes(
                process=process,
                thread=thread,
                name=name,
                is_main=name == MAIN_THREAD,
                samples=int(rows.size),
                times=StateTimes.of(samples["state"][rows], samples["weight_ns"][rows]),
            )
        )
    return tuple(sorted(result, key=lambda row: (-row.times.running_ns, row.process, row.thread)))


def telling_threads(threads: tuple[ThreadTimes, ...], ranks_with_steps: int) -> frozenset[str]:
    """The names of the threads whose functions answer where the time goes.

    The main ones, which the others, mostly waiting, would hide; but where those have no steps and
    only wait themselves, the ones that run.
    """
    main = [row for row in threads if row.is_main]
    names = frozenset(row.name for row in main)
    running_ns = sum(row.times.running_ns for row in main)
    if ranks_with_steps or running_ns > _WAITING_RATIO * sum(row.times.total_ns for row in main):
        return names
    rows = [row for row in threads if not row.is_main and row.name != OWN_THREAD]
    most_ns = max((row.times.running_ns for row in rows), default=0)
    if most_ns <= 2 * running_ns:
        return names
    return frozenset(row.name for row in rows if row.times.running_ns >= _BUSY_RATIO * most_ns)


def waiting_launchers(
    threads: tuple[ThreadTimes, ...], workers: frozenset[int], beside_children: Mapping[int, float]
) -> frozenset[int]:
    """Processes whose main thread only waits while others work: they say nothing of the job.

    `workers` are those that have a rank or steps; a rank that waits says a lot. `beside_children`
    is how much of the time a parent ran while its children lived: before, it had to start, unless
    it ran more than half as long as whichever ran longest, where nobody has a rank or steps: then
    it worked.
    """
    running_ns: dict[int, int] = {}
    for row in threads:
        if row.is_main:
            running_ns[row.process] = running_ns.get(row.process, 0) + row.times.running_ns
    longest_ns = max(running_ns.values(), default=0)
    running = {
        row.process: row.times.running_ns / row.times.total_ns
        for row in threads
        if row.is_main and row.times.total_ns
    }
    if not workers and max(running.values(), default=0.0) <= _WAITING_RATIO:
        return frozenset()
    waiting = {
        process
        for process, ratio in running.items()
        if ratio <= _LAUNCHER_RATIO
        or (
            beside_children.get(process, 1.0) <= _LAUNCHER_RATIO
            and (workers or running_ns[process] <= _START_RATIO * longest_ns)
        )
    }
    return frozenset(waiting - workers)


def beside_children(recording: Recording, coverage: Coverage) -> dict[int, float]:
    """Of each process with children: how much of the time its main thread ran while any lived."""
    index_of = {one.start.pid: one.start.process for one in recording.processes}
    bounds: dict[int, tuple[int, int]] = {}
    for place, one in enumerate(recording.processes):
        pid = one.start.identity.get("parent_pid")
        parent = index_of.get(pid) if isinstance(pid, int) else None
        if parent is None:
            continue
        first, last = bounds.get(parent, (NEVER_NS, 0))
        lived = int(coverage.process_start_ns[place]), int(coverage.process_end_ns[place])
        bounds[parent] = min(first, lived[0]), max(last, lived[1])
    samples = recording.detail("samples")
    result = {}
    for parent, (first, last) in bounds.items():
        mains = [
            thread
            for (process, thread), name in recording.thread_names.items()
            if process == parent and name == MAIN_THREAD
        ]
        rows = (samples["process"] == parent) & np.isin(samples["thread"], mains)
        rows &= (samples["time_ns"] >= first) & (samples["time_ns"] <= last)
        times = StateTimes.of(samples["state"][rows], samples["weight_ns"][rows])
        if times.total_ns:
            result[parent] = times.running_ns / times.total_ns
    return result


def process_times(recording: Recording, coverage: Coverage) -> dict[int, StateTimes]:
    """Time by state over all threads of each process, for the whole recording."""
    samples, sums = recording.detail("samples"), recording.windows("windows")
    late = coverage.detail_rows(samples["process"], samples["time_ns"])
    early = (sums["kind"] == WindowKind.SAMPLE) & coverage.window_rows(
        sums["process"], sums["start_ns"]
    )
    process = np.concatenate([samples["process"][late], sums["process"][early]])
    state = np.concatenate([samples["state"][late], sums["state"][early]])
    weight_ns = np.concatenate([samples["weight_ns"][late], sums["total_ns"][early]])
    return {
        index: StateTimes.of(state[process == index], weight_ns[process == index])
        for index in np.unique(process).tolist()
    }
