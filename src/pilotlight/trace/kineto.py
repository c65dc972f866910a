"""Reads Kineto and other Chrome JSON traces: old and new schemas, CUDA, ROCm and CPU only."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

import numpy as np

from pilotlight import _scan
from pilotlight.errors import FormatError
from pilotlight.trace import span_table
from pilotlight.trace.flow import paired
from pilotlight.trace.kineto_detail import KinetoDetail
from pilotlight.trace.problem import Problem
from pilotlight.trace.span_table import KIND_OF_CATEGORY
from pilotlight.trace.step import STEP_NUMBER, numbered_steps, steps_of
from pilotlight.trace.trace import NONE, Argument, Counters, Kind, Lane, Spans, Trace

_RANK_IN_NAME = re.compile(r"(?:rank|worker)[-_.]?(\d{1,6})(?!\d)", re.IGNORECASE)
_HALF = 1 << 62

INTEGER, REAL, TEXT = 0, 1, 2
ARGUMENTS = {
    "Input Dims": TEXT,
    "Input type": TEXT,
    "Input Types": TEXT,
    "Concrete Inputs": TEXT,
    "Sequence number": INTEGER,
    "Python module id": INTEGER,
    "grid": TEXT,
    "block": TEXT,
    "registers per thread": INTEGER,
    "shared memory": INTEGER,
    "est. achieved occupancy %": REAL,
    "graph id": INTEGER,
    "graph node id": INTEGER,
    "Collective name": TEXT,
    "In msg nelems": INTEGER,
    "Out msg nelems": INTEGER,
    "Group size": INTEGER,
    "dtype": TEXT,
    "Process Group Name": TEXT,
    "Process Group Description": TEXT,
    "Process Group Ranks": TEXT,
    "Src Rank": INTEGER,
    "Dst Rank": INTEGER,
    "Seq": INTEGER,
    "wait_on_stream": INTEGER,
    "wait_on_cuda_event_record_corr_id": INTEGER,
    STEP_NUMBER: INTEGER,
}
# What MTIA's queues do beside kernels.
_KINDS_BY_NAME = {
    "dma_request": Kind.MEMCPY,
    "event_wait": Kind.SYNC,
    "event_record": Kind.SYNC,
}
# These arrows repeat the correlation ids.
_UNUSED_FLOWS = ["ac2g", "async", "async_gpu", "async_cpu_to_gpu"]


# By architecture, compute units and GiB of memory.
_UNNAMED: dict[tuple[Any, ...], str] = {
    (9, 4, 304, 192): "AMD Instinct MI300X",
    (9, 4, 304, 256): "AMD Instinct MI325X",
}


NO_EVENT = "no usable event in it"
ALLOCATED = "allocated device"
"""How the names of the counters begin that the allocator's events become."""


def read_kineto(blocks: Iterator[bytes], source: str) -> Trace:
    """The trace of one file; raises FormatError if there is nothing to use in it."""
    scanner = _scan.Scanner(
        kinds=[(text, int(kind)) for text, kind in KIND_OF_CATEGORY.items()],
        with_correlation=_bits(Kind.RUNTIME, Kind.KERNEL, Kind.MEMCPY, Kind.MEMSET, Kind.SYNC),
        with_bytes=_bits(Kind.MEMCPY, Kind.MEMSET),
        arguments=list(ARGUMENTS.items()),
        unused_flows=_UNUSED_FLOWS,
        most_names=span_table.MAX_NAMES,
        most_lanes=span_table.MAX_LANES,
    )
    for block in blocks:
        if not scanner.feed(block):
            break
    scanner.finish()
    for place, text, fatal in scanner.troubles():
        if fatal:
            raise FormatError(f"{source}: byte {place}: {text}")
    trace = _trace(scanner, source)
    if not len(trace.spans):
        problems = trace.problems
        first = f" ({problems[0].place}: {problems[0].text})" if problems else ""
        raise FormatError(f"{source}: {NO_EVENT}{first}")
    return trace


def _trace(scanner: _scan.Scanner, source: str) -> Trace:
    metadata, problems = _metadata(scanner, source)
    spans, counters = Spans(*scanner.spans()), Counters(*scanner.counters())
    base_ns = metadata.get("baseTimeNanoseconds")
    base_ns = base_ns if type(base_ns) is int and 0 < base_ns < _HALF else 0
    if base_ns and len(spans) and int(spans.start_ns.max()) < _HALF:
        spans.start_ns[:] += base_ns
        counters.time_ns[:] += base_ns
    else:
        base_ns = 0
    names = tuple(scanner.names())
    _correct_kinds(names, spans)
    lane_names = dict(scanner.lane_names())
    lanes = tuple(Lane(*key, lane_names.get(i, "")) for i, key in enumerate(scanner.lanes()))
    arguments = _arguments(scanner)
    processes = _processes(scanner.process_names())
    steps = steps_of(names, spans)
    info = metadata.get("distributedInfo")
    info = info if isinstance(info, dict) else {}
    return Trace(
        source=source,
        format="kineto",
        rank=_rank(info, source),
        world_size=_count(info.get("world_size")),
        devices=_devices(metadata.get("deviceProperties")),
        names=names,
        lanes=lanes,
        spans=spans,
        counters=counters,
        steps=steps if len(steps) else numbered_steps(spans, lanes, processes, arguments),
        problems=(*_problems(scanner, source), *problems),
        skipped=scanner.skipped(),
        flows=paired(scanner.flows(), base_ns),
        arguments=arguments,
        detail=KinetoDetail(names, lanes, spans, arguments),
        processes=processes,
        memory_bytes=_memory_bytes(metadata.get("deviceProperties")),
    )


def _correct_kinds(names: tuple[str, ...], spans: Spans) -> None:
    """Some names tell more than the category."""
    collects = [number for number, text in enumerate(names) if text.startswith("Python GC")]
    if collects:
        spans.kind[np.isin(spans.name, collects)] = Kind.GC
    # Old versions of PyTorch, and Ascend, give steps the category of operators.
    steps = [number for number, text in enumerate(names) if text.startswith("ProfilerStep#")]
    if steps:
        spans.kind[np.isin(spans.name, steps) & (spans.kind == Kind.OPERATOR)] = Kind.ANNOTATION
    for name, kind in _KINDS_BY_NAME.items():
        if name in names:
            spans.kind[(spans.name == names.index(name)) & (spans.kind == Kind.KERNEL)] = kind


def _problems(scanner: _scan.Scanner, source: str) -> Iterator[Problem]:
    for place, text, _ in scanner.troubles():
        yield Problem(source, f"byte {place}", text)
    count, first, reason = scanner.malformed()
    if count:
        text = f"{count} malformed events left out, this is the first ({reason})"
        yield Problem(source, f"byte {first}", text)
    for what, (count, first) in scanner.dropped().items():
        if count:
            yield Problem(source, f"byte {first}", f"{count} {what} left out, this is the first")
    count, first = scanner.repaired()
    if count:
        text = f"{count} names are no UTF-8 or hold NUL, this is the first: shown with \ufffd"
        yield Problem(source, f"byte {first}", text)
    limits = (span_table.MAX_NAMES, span_table.MAX_LANES)
    what_overflowed = zip(scanner.overflowed(), limits, ("names", "lanes"), strict=False)
    for count, limit, what in what_overflowed:
        if count:
            text = f"more than {limit} distinct {what}, or too long: {count} events share one"
            yield Problem(source, "", text)
    if count := scanner.overflowed()[2]:
        yield Problem(source, "", f"more distinct arguments than fit: {count} left out")


def _metadata(scanner: _scan.Scanner, source: str) -> tuple[dict[str, Any], list[Problem]]:
    try:
        found = json.loads(scanner.metadata())
        return (found if isinstance(found, dict) else {}), []
    except (ValueError, RecursionError) as error:
        return {}, [Problem(source, "metadata around the events", str(error))]


def _arguments(scanner: _scan.Scanner) -> dict[str, Argument]:
    texts = tuple(scanner.texts())
    return {
        key: Argument(rows, values, texts if ARGUMENTS[key] == TEXT else ())
        for key, (rows, values) in scanner.arguments().items()
    }


def _processes(names: list[tuple[str, str]]) -> dict[str, str]:
    """Name and labels of a process come apart: `python` and `GPU 0`."""
    found: dict[str, str] = {}
    for process, text in names:
        found[process] = f"{found[process]} {text}" if found.get(process) else text
    return found


def _bits(*kinds: Kind) -> int:
    return sum(1 << kind for kind in kinds)


def _count(value: Any) -> int | None:
    return value if isinstance(value, int) and 0 < value < (1 << 31) else None


def _rank(info: dict[str, Any], source: str) -> int:
    rank = info.get("rank")
    if isinstance(rank, int) and 0 <= rank < (1 << 31):
        return rank
    match = _RANK_IN_NAME.search(source.rsplit("/", 1)[-1])
    return int(match.group(1)) if match else NONE


def _devices(properties: Any) -> tuple[str, ...]:
    if not isinstance(properties, list):
        return ()
    return tuple(_device(p) for p in properties[:1024] if isinstance(p, dict))


def _memory_bytes(properties: Any) -> int:
    """The same model comes with 16 and 32 GB, or 40 and 80."""
    first = properties[0] if isinstance(properties, list) and properties else None
    size = first.get("totalGlobalMem") if isinstance(first, dict) else None
    return size if type(size) is int and 0 < size < _HALF else 0


def _device(properties: dict[str, Any]) -> str:
    """Some builds of ROCm leave the name empty; what they say of the device can be enough."""
    name = properties.get("name", "")
    told = tuple(properties.get(key) for key in ("computeMajor", "computeMinor", "numSms"))
    size = properties.get("totalGlobalMem")
    if name or not isinstance(size, int):
        return str(name)
    return _UNNAMED.get((*told, round(size / 2**30)), "")
