"""Reads the CSV output of Nsight Compute: kernels in the order of their launch, with metrics."""

from __future__ import annotations

import codecs
import csv
import math
import re
from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np

from pilotlight.errors import FormatError
from pilotlight.trace.kineto_detail import KinetoDetail
from pilotlight.trace.problem import Problem
from pilotlight.trace.span_table import SpanTable
from pilotlight.trace.trace import NONE, Argument, Kind, Trace, no_steps

MAX_KERNELS = 10_000_000
MAX_METRICS = 4096
DURATION_METRICS = ("gpu__time_duration.sum", "Duration", "gpu__time_duration.avg")
_KERNEL_COLUMN = "Kernel Name"
_OWN_COLUMNS = (
    "ID", "Process ID", "Process Name", "Host Name", _KERNEL_COLUMN, "Kernel Time", "Context",
    "Stream", "Block Size", "Grid Size", "Device", "CC",
)  # fmt: skip
_UNITS = {
    "byte": 1.0, "kbyte": 1e3, "mbyte": 1e6, "gbyte": 1e9, "tbyte": 1e12,
    "ns": 1.0, "nsecond": 1.0, "us": 1e3, "usecond": 1e3, "ms": 1e6, "msecond": 1e6,
    "s": 1e9, "second": 1e9,
}  # fmt: skip
_SIZES = re.compile(r"\d+")


@dataclass
class _Kernel:
    name: str
    device: str
    stream: str
    process: str
    grid: str
    block: str
    metrics: dict[str, float] = field(default_factory=dict)


def looks_like_ncu(first: bytes) -> bool:
    return b'"Kernel Name"' in first and b'"ID"' in first


def read_ncu(blocks: Iterator[bytes], source: str) -> Trace:
    """Metrics are arguments of the kernels: bytes, nanoseconds, else as written. Kernels were run
    one at a time, so each begins where the one before it ended."""
    rows = csv.reader(_lines(blocks))
    try:
        head = next((row for row in rows if _KERNEL_COLUMN in row and "ID" in row), None)
        if head is None:
            raise FormatError(f"{source}: no table of kernels: not from ncu --csv")
        place = {name: i for i, name in reversed(list(enumerate(head)))}
        long = {"Metric Name", "Metric Value"} <= place.keys()
        read = _read_long if long else _read_wide
        kernels, wrong, first_wrong = read(rows, head, place)
    except csv.Error as error:
        raise FormatError(f"{source}: line {rows.line_num}: {error}") from None
    if not kernels:
        raise FormatError(f"{source}: no kernel in it")
    return _trace(kernels, wrong, first_wrong, source)


def _lines(blocks: Iterator[bytes]) -> Iterator[str]:
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    pending = ""
    for block in blocks:
        parts = (pending + decoder.decode(block).replace("\0", "\ufffd")).splitlines(keepends=True)
        pending = parts.pop() if parts and not parts[-1].endswith("\n") else ""
        yield from parts
        if len(pending) > 1 << 20:
            raise csv.Error("a line longer than a megabyte")
    if pending:
        yield pending


def _kernel(row: list[str], place: dict[str, int]) -> _Kernel:
    def cell(name: str) -> str:
        return row[place[name]] if name in place else ""

    return _Kernel(
        cell(_KERNEL_COLUMN),
        cell("Device") or "0",
        cell("Stream") or "0",
        cell("Process ID"),
        cell("Grid Size"),
        cell("Block Size"),
    )


def _is_data(row: list[str]) -> bool:
    """What ncu says of its own work, such as ==PROF== Disconnected, stands between the rows."""
    return bool(row) and not row[0].startswith("==")


def _read_long(
    rows: Iterator[list[str]], head: list[str], place: dict[str, int]
) -> tuple[list[_Kernel], int, int]:
    """A row a metric."""
    kernels: dict[tuple[str, str], _Kernel] = {}
    wrong, first_wrong = 0, 0
    name, unit, value = (place.get(c, -1) for c in ("Metric Name", "Metric Unit", "Metric Value"))
    needed = max(name, unit, value, place["ID"], place[_KERNEL_COLUMN])
    for line, row in enumerate(rows, 2):
        if len(row) <= needed:  # columns of rules, at the end, are left out of rows of metrics
            if _is_data(row):
                wrong, first_wrong = wrong + 1, first_wrong or line
            continue
        key = row[place["ID"]], row[place["Process ID"]] if "Process ID" in place else ""
        if key not in kernels:
            if len(kernels) >= MAX_KERNELS:
                break
            kernels[key] = _kernel(row, place)
        metrics = kernels[key].metrics
        number = _number(row[value], row[unit] if unit >= 0 else "")
        if row[name] and number is not None and len(metrics) < MAX_METRICS:
            metrics[row[name]] = number
    return list(kernels.values()), wrong, first_wrong


def _read_wide(
    rows: Iterator[list[str]], head: list[str], place: dict[str, int]
) -> tuple[list[_Kernel], int, int]:
    """A row a kernel; the first row has the units."""
    kernels: list[_Kernel] = []
    units = [""] * len(head)
    wrong, first_wrong = 0, 0
    columns = [(i, name) for i, name in enumerate(head) if name not in _OWN_COLUMNS][:MAX_METRICS]
    for line, row in enumerate(rows, 2):
        if len(row) < len(head):
            if _is_data(row):
                wrong, first_wrong = wrong + 1, first_wrong or line
            continue
        if not row[place["ID"]] and not kernels:
            units = row
            continue
        kernel = _kernel(row, place)
        for i, name in columns:
            number = _number(row[i], units[i])
            if number is not None:
                kernel.metrics[name] = number
        kernels.append(kernel)
        if len(kernels) >= MAX_KERNELS:
            break
    return kernels, wrong, first_wrong


def _number(text: str, unit: str) -> float | None:
    try:
        value = float(text.replace(",", ""))
    except ValueError:
        return None
    value *= _UNITS.get(unit.lower(), 1.0)
    return value if math.isfinite(value) else None


def _trace(kernels: list[_Kernel], wrong: int, first_wrong: int, source: str) -> Trace:
    table = SpanTable(source)
    values: dict[str, list[tuple[int, float]]] = {}
    texts: dict[str, int] = {}
    shapes: dict[str, list[tuple[int, int]]] = {"grid": [], "block": []}
    ends: dict[tuple[str, str], int] = {}
    without = 0
    for number, kernel in enumerate(kernels, 1):
        duration = next((kernel.metrics[m] for m in DURATION_METRICS if m in kernel.metrics), -1.0)
        without += duration < 0
        lane = f"device {kernel.device}", f"stream {kernel.stream}"
        start_ns = ends.get(lane, 0)
        row = len(table)
        length_ns = round(min(max(0.0, duration), 1e15))
        table.add(start_ns, length_ns, Kind.KERNEL, kernel.name or "(unnamed kernel)", lane, number)
        ends[lane] = start_ns + length_ns
        for name, value in kernel.metrics.items():
            values.setdefault(name, []).append((row, value))
        for key, text in (("grid", kernel.grid), ("block", kernel.block)):
            if sizes := _SIZES.findall(text[:200]):
                listed = f"[{', '.join(sizes)}]"
                shapes[key].append((row, texts.setdefault(listed, len(texts))))
    arguments = {name: _argument(rows, np.float64) for name, rows in values.items()}
    for key, rows in shapes.items():
        arguments[key] = _argument(rows, np.int64, tuple(texts))
    problems = list(table.problems())
    if wrong:
        text = f"{wrong} lines too short left out, this is the first"
        problems.append(Problem(source, f"line {first_wrong} of the table", text))
    if without:
        text = f"{without} kernels without a duration: collect gpu__time_duration.sum"
        problems.append(Problem(source, "", text))
    spans, names, lanes = table.spans(), tuple(table.names), table.lane_table({})
    return Trace(
        source=source,
        format="ncu",
        rank=NONE,
        world_size=None,
        devices=(),
        names=names,
        lanes=lanes,
        spans=spans,
        counters=table.counters(),
        steps=no_steps(),
        problems=tuple(problems),
        arguments=arguments,
        detail=KinetoDetail(names, lanes, spans, arguments),
    )


def _argument(
    rows: list[tuple[int, float]] | list[tuple[int, int]],
    dtype: type[np.float64] | type[np.int64],
    texts: tuple[str, ...] = (),
) -> Argument:
    return Argument(
        np.array([row for row, _ in rows], np.uint32),
        np.array([value for _, value in rows], dtype),
        texts,
    )
