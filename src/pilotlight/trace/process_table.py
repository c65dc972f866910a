"""The spans of one process that used GPUs, as tools that trace whole machines record them."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from pilotlight.trace.detail import Detail, Grids
from pilotlight.trace.several_devices import each_device
from pilotlight.trace.span_table import SpanTable
from pilotlight.trace.step import steps_of
from pilotlight.trace.trace import NONE, Kind, Trace

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
        lane = _lane(device), f"stream {stream}"
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
        """A trace for each device that the process computes on."""
        names = {_lane(device): (name,) for device, name in gpus.items()}
        return each_device(self._whole(format_name, gpus), lambda lane: names.get(lane, ()))

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


def _lane(device: Any) -> str:
    return f"device {device}"


def in_order(tables: Mapping[Any, ProcessTable]) -> list[ProcessTable]:
    """The processes that used a device, by their first one; all if none did."""
    used = {key: table for key, table in tables.items() if table.devices}
    chosen = {key: table for key, table in (used or tables).items() if len(table.table)}
    order = sorted(chosen, key=lambda key: (min(chosen[key].devices, default=0), str(key)))
    return [chosen[key] for key in order]
