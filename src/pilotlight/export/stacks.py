"""Sampled stacks, summed and in order, for the formats that know nothing but stacks."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from pilotlight.recording.columns import Array, group
from pilotlight.recording.recording import Recording
from pilotlight.recording.schema import WindowKind
from pilotlight.report.coverage import coverage_of

STATE_NAMES = ("unknown", "running", "waiting", "gil_wait", "disk")


@dataclass(frozen=True)
class StackSum:
    """`thread` is None for time of which only windows are kept: those know no threads."""

    process: int
    thread: int | None
    node: int
    state: str
    samples: int
    weight_ns: int


@dataclass(frozen=True)
class ThreadSamples:
    """The samples of one thread in the order of time."""

    process: int
    thread: int
    nodes: Array
    states: Array
    time_ns: Array
    weight_ns: Array


def stack_sums(recording: Recording) -> list[StackSum]:
    """Detail where it is kept, windows for the time before; no time twice."""
    coverage = coverage_of(recording)
    samples, windows = recording.detail("samples"), recording.windows("windows")
    late = samples.where(coverage.detail_rows(samples["process"], samples["time_ns"]))
    early = windows.where(
        (windows["kind"] == WindowKind.SAMPLE)
        & coverage.window_rows(windows["process"], windows["start_ns"])
    )
    process = np.concatenate([late["process"], early["process"]]).astype(np.int64)
    thread = np.concatenate([late["thread"].astype(np.int64), np.full(early.rows, -1)])
    node = recording.calls.find(process, np.concatenate([late["stack"], early["id"]]))
    state = np.concatenate([late["state"], early["state"]]).astype(np.int64)
    weight = np.concatenate([late["weight_ns"], early["total_ns"]])
    count = np.concatenate([np.ones(late.rows), early["count"].astype(np.float64)])
    found, position = group(process, thread, node, state)
    sums_ns = np.bincount(position, weight, found[0].size)
    counts = np.bincount(position, count, found[0].size)
    columns = [column.tolist() for column in (*found, counts, sums_ns)]
    return [
        StackSum(
            process=int(index),
            thread=int(number) if number >= 0 else None,
            node=int(where),
            state=state_name(int(kind)),
            samples=int(samples_of),
            weight_ns=int(weight_ns),
        )
        for index, number, where, kind, samples_of, weight_ns in zip(*columns, strict=True)
    ]


def thread_samples(recording: Recording) -> Iterator[ThreadSamples]:
    """One after the other, so that no more than one thread is held at a time."""
    samples = recording.detail("samples")
    found, position = group(samples["process"], samples["thread"])
    order = np.lexsort((samples["time_ns"], position))
    bounds = np.searchsorted(position[order], np.arange(found[0].size + 1)).tolist()
    pairs = zip(found[0].tolist(), found[1].tolist(), strict=True)
    for index, (process, thread) in enumerate(pairs):
        rows = order[bounds[index] : bounds[index + 1]]
        yield ThreadSamples(
            process=process,
            thread=thread,
            nodes=recording.calls.find(samples["process"][rows], samples["stack"][rows]),
            states=samples["state"][rows],
            time_ns=samples["time_ns"][rows],
            weight_ns=samples["weight_ns"][rows],
        )


def state_name(state: int) -> str:
    return STATE_NAMES[state] if state < len(STATE_NAMES) else STATE_NAMES[0]


def process_label(recording: Recording, process: int) -> str:
    for described in recording.processes:
        if described.start.process == process:
            rank = described.rank
            return f"rank {rank}" if rank is not None else f"pid {described.start.pid}"
    return f"process {process}"


def thread_label(recording: Recording, process: int, thread: int | None) -> str:
    if thread is None:
        return "(threads not kept)"
    return recording.thread_names.get((process, thread)) or f"thread {thread}"
