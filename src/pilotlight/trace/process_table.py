"""The spans of one process that used GPUs, as tools that trace whole machines record them."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from pilotlight.trace.detail import Detail, Grids
from pilotlight.trace.span_table import SpanTable
from pilotlight.trace.step import steps_of
from pilotlight.trace.trace import NONE, Kind, Trace, no_counters

MAX_DEVICES = 128  # of one process: more are no GPUs
COMPUTES_RATIO = 0.1  # of the busiest device's kernel time
MAX_SIZE = 1 << 62  # of a grid or a block: CUDA has 2 ** 31 blocks along the first side


class ProcessTable:
    def __init__(self, source: str, pid: int) -> None:
        self.table = SpanTable(source)
        self.pid = pid
        self.devices: set[int] = set()
        self._grids: list[tuple[int, int, int, int, int]] = []

    def add_device(
        self,
        times: tuple[Any, Any],
        place: tuple[Any, Any],
        kind: Kind,
        name: str,
        correlation: Any = None,
        size: Any = None,
    ) -> None:
        """`times`: start and end; `place`: device and stream."""
        device, stream = place
        if isinstance(device, int) and kind != Kind.SYNC:
            self.devices.add(device)
        lane = f"device {device}", f"stream {stream}"
        self._add(times, lane, kind, name, correlation, size)

    def add_host(
        self, times: tuple[Any, Any], thread: Any, kind: Kind, name: str, correlation: Any = None
    ) -> None:
        self._add(times, (str(self.pid), str(thread)), kind, name, correlation, None)

    def add_grid(
        self, correlation: Any, start_ns: Any, blocks: Sequence[Any], threads: Sequence[Any]
    ) -> None:
        """Of the kernel with this correlation and begin: the sizes of its grid and of a block."""
        row = [correlation, *blocks, *threads]
        if type(start_ns) is not int or any(type(v) is not int or v <= 0 for v in row):
            return
        sizes = math.prod(blocks), math.prod(threads), blocks[0]
        if max(sizes) < MAX_SIZE:
            self._grids.append((correlation, *sizes, start_ns))

    def _add(
        self,
        times: tuple[Any, Any],
        lane: tuple[str, str],
        kind: Kind,
        name: str,
        correlation: Any,
        size: Any,
    ) -> None:
        start, end = times
        if not isinstance(start, int) or not isinstance(end, int):
            self.table.dropped["spans without a start or an end"] += 1
            return
        known = correlation if isinstance(correlation, int) and correlation else NONE
        size_bytes = size if isinstance(size, int) else NONE
        self.table.add(start, end - start, kind, name, lane, known, size_bytes)

    def finish(self, format_name: str, gpus: Mapping[int, str]) -> tuple[Trace, ...]:
        """A trace for each device that the process computes on, all with its host's spans."""
        whole = self._whole(format_name, gpus)
        used = _computing(whole, self.devices)
        if len(used) < 2:
            return (whole,)
        parts = []
        for place, device in enumerate(used):
            # What is on devices that hardly compute stays with the first.
            others = {f"device {d}" for d in (self.devices if place else used) if d != device}
            kept = np.array([lane.process not in others for lane in whole.lanes], np.bool_)
            part = replace(
                whole,
                devices=tuple(gpus[d] for d in (device,) if d in gpus),
                spans=whole.spans.take(np.flatnonzero(kept[whole.spans.lane])),
                counters=no_counters() if place else whole.counters,
                problems=() if place else whole.problems,
            )
            parts.append(part)
        return tuple(parts)

    def _whole(self, format_name: str, gpus: Mapping[int, str]) -> Trace:
        spans = self.table.spans()
        names = tuple(self.table.names)
        grids = np.array(self._grids, np.int64).reshape(-1, 5)
        return Trace(
            source=self.table.source,
            format=format_name,
            rank=NONE,
            world_size=None,
            devices=tuple(gpus[d] for d in sorted(self.devices) if d in gpus),
            names=names,
            lanes=self.table.lane_table({}),
            spans=spans,
            counters=self.table.counters(),
            steps=steps_of(names, spans),
            problems=tuple(self.table.problems()),
            detail=Detail(grids=Grids(*grids.T)),
        )


def _computing(trace: Trace, devices: set[int]) -> list[int]:
    """The devices that run kernels for a part of the busiest one's time that counts."""
    spans = trace.of_kind(Kind.KERNEL)
    of_lane = np.bincount(spans.lane, spans.duration_ns, len(trace.lanes))
    of_process: Counter[str] = Counter()
    for lane, ns in zip(trace.lanes, of_lane.tolist(), strict=True):
        of_process[lane.process] += ns
    kernel_ns = {device: of_process[f"device {device}"] for device in sorted(devices)}
    most = max(kernel_ns.values(), default=0.0)
    found = [device for device, ns in kernel_ns.items() if ns > COMPUTES_RATIO * most]
    return found if len(found) <= MAX_DEVICES else []


def in_order(tables: Mapping[Any, ProcessTable]) -> list[ProcessTable]:
    """The processes that used a device, by their first one; all if none did."""
    used = {key: table for key, table in tables.items() if table.devices}
    chosen = {key: table for key, table in (used or tables).items() if len(table.table)}
    order = sorted(chosen, key=lambda key: (min(chosen[key].devices, default=0), str(key)))
    return [chosen[key] for key in order]
