"""What the GPUs of a job did: kernels, copies and graphs by time, and how much of it was seen."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from pilotlight.recording.columns import Array, Columns
from pilotlight.recording.gpu_weights import Kept, Weights, timed_as, weights
from pilotlight.recording.gpu_windows import (
    MISSING_MARK,
    GpuWindows,
    Timed,
    gpu_windows,
    launched_after_end,
    taken_along,
    yielded_ns,
)
from pilotlight.recording.recording import Recording
from pilotlight.recording.schema import NO_WORK, ActivityKind, MarkKind
from pilotlight.report.external import EXTERNAL_LISTED, ExternalTime, external_of
from pilotlight.report.hardware import HARDWARE_LISTED, PREFIX, UnitUse, units_of
from pilotlight.report.intervals import merge, overlap
from pilotlight.report.kernel_use import KERNELS_LISTED, KernelUse, kernels_of
from pilotlight.report.provider_losses import ProviderLosses, provider_losses_of
from pilotlight.report.stalls import STALLS_LISTED, FunctionStalls, stalls_of
from pilotlight.report.work_interval import half_widths

WORK_LISTED = 500
_BUSY = (ActivityKind.KERNEL, ActivityKind.MEMCPY, ActivityKind.MEMSET, ActivityKind.GRAPH)
# Counters of device records that are missing, each in one of them.
LOST_RECORDS = ("gpu/lost_by_cupti", "gpu/lost_ring_full", "gpu/lost_at_exit")
# Those of them that are in no gap of a ring.
_LOST_BEFORE_RINGS = ("gpu/lost_by_cupti", "gpu/lost_at_exit")
# No counters: whoever is killed cannot count, and who has ended does not count any more.
TAKEN_ALONG = "gpu/taken_along"
AFTER_END = "gpu/after_end"
# Counters of losses, and how to say them.
LOSSES = {
    "gpu/lost_by_cupti": "records dropped by CUPTI",
    "gpu/lost_ring_full": "records that found no room in the ring",
    "gpu/lost_at_exit": "records left behind when the process ended",
    TAKEN_ALONG: "launches without a record, the process was ended before CUPTI handed it over",
    AFTER_END: "launches while the process ended already, nothing is known of their work",
    "gpu/cut_buffers": "buffers whose rest CUPTI could not read, how many records is not known",
    "gpu/buffers_left": "buffers that CUPTI kept at the end, what was in them is not known",
    "gpu/exit_unsure": "ends before all was counted: more may be lost than is said here",
    "gpu/zero_timestamps": "records without a time",
    "gpu/unknown_records": "records that could not be read",
    "gpu/out_of_order": "records out of order",
    "gpu/misplaced": "records left out, by no clock their time is of this process",
    "gpu/names_shared": "kernels under a shared name, there were too many",
    "gpu/nodes_lost": "kernels of graphs shown where these were launched: the capture was not seen",
    "gpu/clock_jumps": "jumps of the clock",
    "gpu/pc_dropped": "PC samples for which the device had no room",
    "gpu/pc_lost": "PC samples that found no room in the ring",
    "gpu/pc_contexts_out": "contexts without PC samples, beside another of their GPU",
    "gpu/range_dropped": "kernels for whose hardware metrics CUPTI had no room",
    "gpu/range_lost": "kernels whose hardware metrics could not be read, or found no room",
    "gpu/range_unnamed": "kernels with hardware metrics, but which kernel it was is not known",
    "gpu/range_contexts_out": "contexts without hardware metrics of kernels, too many",
    "gpu/pm_cut_windows": "windows of PM samples cut short, the device had no room for more",
    "gpu/pm_lost": "PM samples that could not be read, or found no room in the ring",
}


@dataclass(frozen=True)
class WorkTime:
    """`seen` is what was recorded, `total` what it stands for with the windows in between.

    `total_low_ns` and `_high_ns` are its 95 % interval; None: unknown, too few windows had it.
    `ratio`: in all work. What graphs are made of counts in their own row and in that of its graph.
    """

    name: str
    kind: str
    seen: int
    total_count: float
    total_ns: float
    total_low_ns: float | None
    total_high_ns: float | None
    ratio: float
    median_ns: int
    launched_in: str
    is_in_graphs: bool  # some of it, and their rows have it too


@dataclass(frozen=True)
class ProcessGpu:
    """`coverage_ratio`: share of the time with device records; `yielded_ns`: when another tool had
    CUPTI. Ratios of overhead may be None: not measured, because there were no steps, or too few."""

    process: int
    devices: tuple[int, ...]
    watched_ns: int
    yielded_ns: int
    coverage_ratio: float
    launches_ratio: float
    busy_ratio: float | None
    launches: int
    activities: int
    overhead_ratio: float | None
    overhead_low: float | None
    overhead_high: float | None
    launch_ratio: float | None
    spent_ratio: float | None
    clock_uncertainty_ns: int | None
    losses: dict[str, int]
    missing: tuple[str, ...]

    @property
    def lost_before_rings(self) -> int:
        """Device records that never came to a ring, so that no gap tells of them."""
        return sum(self.losses.get(name, 0) for name in _LOST_BEFORE_RINGS)


@dataclass(frozen=True)
class GpuWork:
    processes: tuple[ProcessGpu, ...]
    work: tuple[WorkTime, ...]
    work_left_out: int
    stalls: tuple[FunctionStalls, ...]  # by PC samples; the most sampled
    hardware: tuple[UnitUse, ...]  # by PM samples
    kernels: tuple[KernelUse, ...]  # by the range profiler; those that took longest
    external: tuple[ExternalTime, ...]  # by ids that the program pushed to CUPTI
    providers: tuple[ProviderLosses, ...]  # what others than CUDA's could not record


def gpu_work_of(recording: Recording) -> GpuWork:
    activities, launches = recording.detail("activities"), recording.detail("launches")
    activities = activities.where(~np.isin(activities["kind"], NO_WORK))
    windows = {one.process: one for one in gpu_windows(recording)}
    missing = _missing(recording)
    # Where launches were lost, they do not tell the share of the windows.
    with_gaps = set(recording.gaps["process"].tolist())
    ended = {one.start.process for one in recording.processes if one.end is not None}
    no_launches = launches.where(np.zeros(launches.rows, bool))
    weight = Weights(np.ones(activities.rows), np.zeros(activities.rows, bool))
    processes = []
    for process in sorted({*windows, *missing}):
        mine = activities["process"] == process
        my_activities = activities.where(mine)
        my_launches = launches.where(launches["process"] == process)
        own = windows.get(process)
        values = _last_values(recording, process)
        if own is not None:
            if process in ended:
                values[TAKEN_ALONG] = taken_along(own, my_activities, my_launches)
                # The last records of all may be of them, and are counted then.
                late = launched_after_end(own, my_activities, my_launches)
                values[AFTER_END] = max(0.0, late - sum(values.get(n, 0.0) for n in LOST_RECORDS))
            all_known = my_launches if process not in with_gaps else no_launches
            found = weights(own, my_activities, all_known, _kept(values))
            weight.values[mine], weight.is_counted[mine] = found.values, found.is_counted
        processes.append(
            _process(
                recording,
                process,
                own,
                my_activities,
                my_launches,
                values,
                missing.get(process, ()),
            )
        )
    work = _work(recording, activities, weight, windows)
    return GpuWork(
        processes=tuple(processes),
        work=work[:WORK_LISTED],
        work_left_out=max(0, len(work) - WORK_LISTED),
        stalls=stalls_of(recording)[:STALLS_LISTED],
        hardware=units_of(recording)[:HARDWARE_LISTED],
        kernels=kernels_of(recording)[:KERNELS_LISTED],
        external=external_of(recording)[:EXTERNAL_LISTED],
        providers=provider_losses_of(recording),
    )


def _process(
    recording: Recording,
    process: int,
    windows: GpuWindows | None,
    activities: Columns,
    launches: Columns,
    values: Mapping[str, float],
    missing: tuple[str, ...],
) -> ProcessGpu:
    watched = windows.watched_ns if windows is not None else 0
    uncertainty = values.get("gpu/clock_uncertainty_ns")
    return ProcessGpu(
        process=process,
        devices=_devices(recording, process),
        watched_ns=watched,
        yielded_ns=yielded_ns(recording, windows) if windows is not None else 0,
        coverage_ratio=windows.records_ns / watched if windows is not None and watched else 0.0,
        launches_ratio=windows.launches_ns / watched if windows is not None and watched else 0.0,
        busy_ratio=_busy(windows, activities) if windows is not None else None,
        launches=launches.rows,
        activities=activities.rows,
        overhead_ratio=values.get("gpu/overhead_ratio"),
        overhead_low=values.get("gpu/overhead_low"),
        overhead_high=values.get("gpu/overhead_high"),
        launch_ratio=values.get("gpu/launch_ratio"),
        spent_ratio=values.get("gpu/spent_ratio"),
        clock_uncertainty_ns=int(uncertainty) if uncertainty is not None else None,
        losses={name: int(values[name]) for name in LOSSES if values.get(name)},
        missing=missing,
    )


def _kept(values: Mapping[str, float]) -> Kept:
    lost = sum(values.get(name, 0.0) for name in LOST_RECORDS)
    return Kept(int(values.get("gpu/records", 0.0)), int(lost))


def _busy(windows: GpuWindows, activities: Columns) -> float | None:
    """In which part of the time with device records some work ran; None: there was no such time."""
    begins, ends = windows.on_intervals()
    whole = int((ends - begins).sum())
    if whole <= 0:
        return None
    rows = np.isin(activities["kind"], [int(kind) for kind in _BUSY])
    starts = activities["start_ns"][rows]
    merged = merge(starts, starts + activities["duration_ns"][rows])
    return float(overlap(merged, begins, ends).sum() / whole)


def _work(
    recording: Recording,
    activities: Columns,
    weight: Weights,
    windows: Mapping[int, GpuWindows],
) -> tuple[WorkTime, ...]:
    """By name and kind, over all processes, longest first; waits and overhead are no work."""
    rows = np.isin(activities["kind"], [int(kind) for kind in _BUSY])
    activities = activities.where(rows)
    weight = Weights(weight.values[rows], weight.is_counted[rows])
    if not activities.rows:
        return ()
    number = recording.names.find(activities["process"], activities["name"]).astype(np.int64)
    kinds = activities["kind"].astype(np.int64)
    keys, first, position = np.unique(number * 256 + kinds, return_index=True, return_inverse=True)
    length = activities["duration_ns"].astype(np.float64)
    totals = np.bincount(position, length * weight.values, keys.size)
    counts = np.bincount(position, weight.values, keys.size)
    half_ns = half_widths(activities, weight, windows, position, keys.size)
    seen_ns = np.bincount(position, length, keys.size)
    seen = np.bincount(position, minlength=keys.size)
    whole = _whole(activities, length * weight.values)
    sorts = timed_as(activities)
    is_node, has_graphs = sorts[Timed.NODES], bool(sorts[Timed.GRAPHS].any())
    order = np.lexsort((length, position))
    bounds = np.searchsorted(position[order], np.arange(keys.size + 1))
    result = []
    for place in np.argsort(-totals, kind="stable").tolist():
        mine = order[bounds[place] : bounds[place + 1]]
        row = int(first[place])
        half = float(half_ns[place])
        is_known = np.isfinite(half)
        total = float(totals[place])
        result.append(
            WorkTime(
                name=recording.names.texts[int(number[row])] or "(name lost)",
                kind=ActivityKind(int(kinds[row])).name.lower(),
                seen=int(seen[place]),
                total_count=float(counts[place]),
                total_ns=total,
                total_low_ns=max(total - half, float(seen_ns[place])) if is_known else None,
                total_high_ns=total + half if is_known else None,
                ratio=total / whole,
                median_ns=int(length[mine[mine.size // 2]]),
                launched_in=_origin(recording, activities, mine),
                is_in_graphs=has_graphs and bool(is_node[mine].any()),
            )
        )
    return tuple(result)


def _whole(activities: Columns, times_ns: Array) -> float:
    """All of the work, each part once: a graph that was timed as a whole has its nodes in it."""
    of_each = {sort: float(times_ns[mine].sum()) for sort, mine in timed_as(activities).items()}
    in_graphs = max(of_each[Timed.GRAPHS], of_each[Timed.NODES])
    return of_each[Timed.OTHERS] + in_graphs or 1.0


def _origin(recording: Recording, activities: Columns, rows: Array) -> str:
    """The two innermost functions of the stack that launched most of these."""
    stacks = activities["stack"][rows]
    known = rows[stacks != 0]
    if not known.size:
        return ""
    nodes = recording.calls.find(activities["process"][known], activities["stack"][known])
    found, counts = np.unique(nodes, return_counts=True)
    path = recording.calls.path(int(found[np.argmax(counts)]))
    return " › ".join(frame.function for frame in path[-2:])


def _devices(recording: Recording, process: int) -> tuple[int, ...]:
    tracks = recording.detail("tracks")
    mine = tracks["device"][(tracks["process"] == process) & (tracks["kind"] == 1)]
    return tuple(int(device) for device in np.unique(mine))


def _last_values(recording: Recording, process: int) -> dict[str, float]:
    """Of all but the samples of hardware."""
    table = recording.detail("counters")
    table = table.where((table["process"] == process) & np.isfinite(table["value"]))
    names = recording.names.find(table["process"], table["name"])
    order = np.argsort(table["time_ns"], kind="stable")[::-1]
    numbers, last = np.unique(names[order], return_index=True)
    texts = recording.names.texts
    return {
        texts[number]: float(table["value"][order[row]])
        for number, row in zip(numbers.tolist(), last.tolist(), strict=True)
        if not texts[number].startswith(PREFIX)
    }


def _missing(recording: Recording) -> dict[int, tuple[str, ...]]:
    marks = recording.detail("marks")
    marks = marks.where(marks["kind"] == MarkKind.MARK)
    found = recording.names.find(marks["process"], marks["name"])
    result: dict[int, tuple[str, ...]] = {}
    for process, number in zip(marks["process"].tolist(), found.tolist(), strict=True):
        text = recording.names.texts[number]
        reason = text[len(MISSING_MARK) :]
        if text.startswith(MISSING_MARK) and reason not in result.get(process, ()):
            result[process] = (*result.get(process, ()), reason)
    return result
