"""Reads any set of files and folders as the ranks of one job."""

from __future__ import annotations

import itertools
import os
import re
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from pilotlight import _scan
from pilotlight.errors import FormatError, UsageError
from pilotlight.trace.bounded import bound_arrays
from pilotlight.trace.memory import available_bytes
from pilotlight.trace.problem import Problem
from pilotlight.trace.step import lasting
from pilotlight.trace.trace import NONE, Kind, Trace, TraceSet
from pilotlight.trace.trace_file import TRACE_SUFFIXES, XPLANE_SUFFIX, problem_of, read_file

if TYPE_CHECKING:
    from pilotlight.capture.manifest import Captured

MAX_FILES = 100_000
# Known here too: what reads these folders is imported only for them.
RECORDING_FILE = "manifest.json"
CAPTURE_FILE = "capture.json"
JAX_JSON_SUFFIX = ".trace.json.gz"
JAX_PERFETTO_FILE = "perfetto_trace.json.gz"  # with create_perfetto_trace or create_perfetto_link
# As torch.profiler.tensorboard_trace_handler writes them: worker, nanoseconds.
_WINDOW = re.compile(r"(.+)\.(\d{10,19})\.pt\.trace\.json(?:\.gz)?")


def read_traces(
    paths: Sequence[Path],
    workers: int = os.cpu_count() or 1,
    progress: Callable[[int], None] = lambda count_bytes: None,
    memory_bytes: int | None = None,
) -> TraceSet:
    """Every rank that can be read, and a problem for each file or place that cannot.

    `progress` is told, from any thread, how many bytes of the files more were read. Columns beyond
    `memory_bytes` go to files without a name; half of the free memory if None.
    """
    if memory_bytes is None:
        memory_bytes = available_bytes() // 2
    _scan.set_budget(memory_bytes, os.environ.get("TMPDIR") or "/tmp")
    files, problems, captured = _files(paths)
    # The scanner and the inflater let other threads run.
    count = max(1, min(len(files), workers))
    with ThreadPoolExecutor(count, initializer=bound_arrays) as pool:
        results = list(pool.map(lambda path: read_file(path, progress), files))
    traces = [
        _placed(trace, captured.get(path))
        for path, result in zip(files, results, strict=True)
        for trace in result.traces
    ]
    problems += itertools.chain.from_iterable(result.problems for result in results)
    traces, left_out = _last_windows(traces)
    kept, rank_problems = _ranks(traces)
    return TraceSet(kept, (*problems, *left_out, *rank_problems))


def _placed(trace: Trace, captured: Captured | None) -> Trace:
    if captured is None:
        return replace(trace, steps=lasting(trace.steps))
    from pilotlight.trace.captured import placed

    return placed(trace, captured)


def _files(paths: Sequence[Path]) -> tuple[list[Path], list[Problem], dict[Path, Captured]]:
    """The files, what is wrong with the paths, and what a capture says of its own files."""
    files: list[Path] = []
    problems: list[Problem] = []
    captured: dict[Path, Captured] = {}
    if paths and not any(path.exists() or path.is_symlink() for path in paths):
        raise UsageError(f"{', '.join(map(str, paths))}: no such file or folder")
    for path in paths:
        if (path / RECORDING_FILE).is_file():
            files.append(path)
        elif (path / CAPTURE_FILE).is_file():
            from pilotlight.trace.captured import captured_files

            try:
                named = captured_files(path)
            except FormatError as error:
                problems.append(problem_of(str(path), error))
                continue
            captured |= named
            files += sorted(named)
        elif path.is_dir():
            found = list(itertools.islice(_files_below(path), MAX_FILES + 1))
            if not found:
                problems.append(Problem(str(path), "", "no trace file in this folder"))
            if len(found) > MAX_FILES:
                problems.append(
                    Problem(str(path), "", f"more than {MAX_FILES} files, the rest left out")
                )
            # To open a pipe would wait for somebody who writes it.
            others = [one for one in found if one.exists() and not one.is_file()]
            problems += [Problem(str(one), "", "no regular file: left out") for one in others]
            files += sorted(one for one in found[:MAX_FILES] if one not in others)
        elif path.exists() or path.is_symlink():
            files.append(path)
        else:
            problems.append(Problem(str(path), "", "no such file or folder"))
    return _once(files), problems, captured


def _once(files: list[Path]) -> list[Path]:
    """JAX writes each profile in two or three formats beside each other; the one with the most."""
    written = {str(path) for path in files if path.name.endswith(XPLANE_SUFFIX)}
    folders = {Path(path).parent for path in written}

    def is_repeated(path: Path) -> bool:
        if path.name == JAX_PERFETTO_FILE and path.parent in folders:
            return True
        profile, suffix, _ = str(path).partition(JAX_JSON_SUFFIX)
        return bool(suffix) and profile + XPLANE_SUFFIX in written

    return [path for path in files if not is_repeated(path)]


def _files_below(folder: Path) -> Iterator[Path]:
    for root, _, names in os.walk(folder, followlinks=False):
        for name in names:
            if name.endswith(TRACE_SUFFIXES):
                yield Path(root, name)


def _last_windows(traces: list[Trace]) -> tuple[list[Trace], list[Problem]]:
    """A profiler with a schedule writes a file for each of its windows: of those of one process the
    last, for between them is time that nobody traced. Their names say which belong together, or
    that they are of the same process one after the other."""
    windows: dict[str | tuple[int, str], list[tuple[int, Trace]]] = {}
    problems, left_out = [], set()
    for trace in traces:
        match, process = _WINDOW.fullmatch(trace.source), _process_of(trace)
        if match:
            windows.setdefault(match.group(1), []).append((int(match.group(2)), trace))
        elif process:
            begin_ns = int(trace.spans.start_ns.min())
            windows.setdefault((trace.rank, process), []).append((begin_ns, trace))
    for key, found in windows.items():
        *earlier, last = [trace for _, trace in sorted(found, key=lambda window: window[0])]
        if not earlier or not (isinstance(key, str) or _follow_each_other([*earlier, last])):
            continue
        left_out |= {id(trace) for trace in earlier}
        count = "an earlier window" if len(earlier) == 1 else f"{len(earlier)} earlier windows"
        text = f"{count} of this process left out: name the file to see one, {earlier[0].source}"
        problems.append(Problem(last.source, "", text))
    return [trace for trace in traces if id(trace) not in left_out], problems


def _process_of(trace: Trace) -> str:
    """The number of the process that the profiler was in; "" where the trace does not tell it."""
    host = trace.spans.is_kind(Kind.ANNOTATION, Kind.OPERATOR, Kind.RUNTIME)
    if trace.format != "kineto" or not host.any():
        return ""
    lane = int(np.bincount(trace.spans.lane[host]).argmax())
    process = trace.lanes[lane].process
    return process if process.isdigit() else ""


def _follow_each_other(traces: list[Trace]) -> bool:
    """Whether each file begins when the one before has ended; ranks are traced at once."""
    return len({trace.source for trace in traces}) == len(traces) and all(
        before.spans.end_ns.max() <= after.spans.start_ns.min()
        for before, after in itertools.pairwise(traces)
    )


def _ranks(traces: list[Trace]) -> tuple[tuple[Trace, ...], list[Problem]]:
    """One trace a rank, in order; a rank that the file does not tell is the next free one."""
    problems: list[Problem] = []
    by_rank: dict[int, Trace] = {}
    unranked: list[Trace] = []
    for trace in traces:
        if trace.rank == NONE:
            unranked.append(trace)
        elif trace.rank in by_rank:
            other = by_rank[trace.rank].source
            problems.append(
                Problem(trace.source, "", f"rank {trace.rank} again, after {other}: left out")
            )
        else:
            by_rank[trace.rank] = trace
    free = (rank for rank in itertools.count() if rank not in by_rank)
    for trace, rank in zip(unranked, list(itertools.islice(free, len(unranked))), strict=True):
        by_rank[rank] = replace(trace, rank=rank)
    kept = tuple(by_rank[rank] for rank in sorted(by_rank))
    if len(kept) > 1:
        problems += _missing(kept)
    return kept, problems


def _missing(traces: tuple[Trace, ...]) -> list[Problem]:
    sizes = {trace.world_size for trace in traces if trace.world_size}
    if len(sizes) != 1:
        return []
    world_size = sizes.pop()
    present = {trace.rank for trace in traces}
    absent_count = world_size - len(present & set(range(world_size)))
    if not absent_count:
        return []
    absent = list(itertools.islice((r for r in range(world_size) if r not in present), 8))
    more = ", ..." if absent_count > len(absent) else ""
    text = f"{absent_count} of {world_size} ranks missing: {', '.join(map(str, absent))}{more}"
    return [Problem(traces[0].source, "", text)]
