"""Writes a trace as Kineto JSON, which PyTorch's tools, HTA and Perfetto read."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from pilotlight.trace.flow import launch_arrows
from pilotlight.trace.span_table import CATEGORY_OF_KIND
from pilotlight.trace.step import with_step_spans
from pilotlight.trace.told import told
from pilotlight.trace.trace import NONE, Kind, Trace

_DEVICE = (Kind.KERNEL, Kind.MEMCPY, Kind.MEMSET, Kind.SYNC)
ROWS_AT_ONCE = 10_000


def write_kineto(trace: Trace, path: Path) -> None:
    """Compressed if the name ends in .gz; rows are written in pieces, not held as text."""
    with ExitStack() as stack:
        if path.suffix == ".gz":
            file: IO[str] = stack.enter_context(gzip.open(path, "wt", 6, "utf-8"))
        else:
            file = stack.enter_context(path.open("w", encoding="utf-8"))
        for piece in kineto_text(trace):
            file.write(piece)


def _device(trace: Trace, number: int) -> dict[str, Any]:
    told = {"totalGlobalMem": trace.memory_bytes} if trace.memory_bytes else {}
    return {"id": number, "name": trace.devices[number], **told}


def kineto_text(trace: Trace) -> Iterator[str]:
    trace = with_step_spans(trace)
    head: dict[str, Any] = {
        "schemaVersion": 1,
        "deviceProperties": [_device(trace, i) for i in range(len(trace.devices))],
        "distributedInfo": {"backend": "nccl", "rank": trace.rank},
        # Microseconds with a fraction are exact only if they are small.
        "baseTimeNanoseconds": _base_ns(trace),
    }
    if trace.world_size:
        head["distributedInfo"]["world_size"] = trace.world_size
    yield json.dumps(head)[:-1] + ', "traceEvents": ['
    separator = ""
    arrows = launch_arrows(trace.spans)
    for begin in range(0, len(trace.spans), ROWS_AT_ONCE):
        rows = _events(trace, arrows, begin, min(begin + ROWS_AT_ONCE, len(trace.spans)))
        yield separator + ",\n".join(json.dumps(row) for row in rows)
        separator = ",\n"
    for event in _counter_events(trace):
        yield separator + json.dumps(event)
        separator = ",\n"
    yield "]}\n"


def _base_ns(trace: Trace) -> int:
    starts = (trace.spans.start_ns, trace.counters.time_ns)
    first = min((int(column.min()) for column in starts if len(column)), default=0)
    return first // 1_000_000_000 * 1_000_000_000


def _events(
    trace: Trace, arrows: NDArray[np.int64], begin: int, end: int
) -> Iterator[dict[str, Any]]:
    spans = trace.spans
    base_ns = _base_ns(trace)
    columns = (
        spans.start_ns, spans.duration_ns, spans.kind, spans.name, spans.lane, spans.correlation,
        spans.bytes, arrows,
    )  # fmt: skip
    for args, start, duration, kind, name, lane, correlation, size, arrow in zip(
        told(trace, np.arange(begin, end)),
        *(column[begin:end].tolist() for column in columns),
        strict=True,
    ):
        place = trace.lanes[lane]
        if correlation != NONE:
            args["correlation"] = correlation
        if size != NONE:
            args["bytes"] = size
        if kind in _DEVICE:
            args["device"] = _number(place.process, 0)
            args["stream"] = _number(place.thread, 0)
        at = {
            "pid": _number(place.process, place.process),
            "tid": _number(place.thread, place.thread),
            "ts": _microseconds(start - base_ns),
        }
        yield {
            "ph": "X",
            "cat": CATEGORY_OF_KIND[Kind(kind)],
            "name": trace.names[name],
            **at,
            "dur": _microseconds(duration),
            "args": args,
        }
        if arrow:
            end_of_it = {"ph": "f", "bp": "e"} if kind in _DEVICE else {"ph": "s"}
            yield {**end_of_it, "id": arrow, "cat": "ac2g", "name": "ac2g", **at}


def _counter_events(trace: Trace) -> Iterator[dict[str, Any]]:
    counters = trace.counters
    base_ns = _base_ns(trace)
    for time_ns, name, value in zip(
        counters.time_ns.tolist(), counters.name.tolist(), counters.value.tolist(), strict=True
    ):
        title, _, series = trace.names[name].rpartition(" ")
        yield {
            "ph": "C",
            "name": title or series,
            "pid": 0,
            "ts": _microseconds(time_ns - base_ns),
            "args": {series: value},
        }


def _microseconds(nanoseconds: int) -> int | float:
    whole, rest = divmod(nanoseconds, 1000)
    return whole + rest / 1000 if rest else whole


def _number(text: str, otherwise: Any) -> Any:
    """`7`, `stream 7` and `device 0` are numbers for other tools."""
    last = text.rsplit(" ", 1)[-1]
    return int(last) if last.isdigit() and len(last) < 16 else otherwise
