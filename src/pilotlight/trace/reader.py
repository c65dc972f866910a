"""Reads any set of files and folders as the ranks of one job."""

from __future__ import annotations

import itertools
import os
import tarfile
import tempfile
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path

from pilotlight import _scan
from pilotlight.capture.manifest import Captured
from pilotlight.errors import FormatError, NotFound
from pilotlight.trace.block import GZIP_MAGIC, BlockFile, Source, Truncated, ahead, expanded
from pilotlight.trace.captured import captured_files, is_capture, placed
from pilotlight.trace.kineto import read_kineto
from pilotlight.trace.memory import available_bytes
from pilotlight.trace.ncu import SUFFIX as NCU_SUFFIX
from pilotlight.trace.ncu import looks_like_ncu, read_ncu
from pilotlight.trace.nsys import is_nsys, read_nsys
from pilotlight.trace.perfetto import SUFFIXES as PERFETTO_SUFFIXES
from pilotlight.trace.perfetto import looks_like_perfetto, read_perfetto
from pilotlight.trace.problem import Problem
from pilotlight.trace.recorded import is_recording, read_recording
from pilotlight.trace.rocpd import is_rocpd, read_rocpd
from pilotlight.trace.sqlite import SQLITE_MAGIC, opened
from pilotlight.trace.trace import NONE, Trace, TraceSet
from pilotlight.trace.xplane import SUFFIX, read_xplane

MAX_FILES = 100_000
TRACE_SUFFIXES = (
    *(".json", ".json.gz", ".tar", ".tar.gz", ".tgz", ".sqlite", ".db", ".rpd", SUFFIX),
    *PERFETTO_SUFFIXES,
    *(f"{suffix}.gz" for suffix in PERFETTO_SUFFIXES),
)
THREAD_BYTES = 256 << 10  # a smaller file is inflated before a thread has started
_OTHER_MAGIC = {
    b"PK\x03\x04": "a zip archive: unpack it first",
    b"\x28\xb5\x2f\xfd": "zstd data: unpack it first",
    b"\x80\x02": "a pickle: for flight-recorder dumps use `pilotlight hang`",
    b"\x80\x04": "a pickle: for flight-recorder dumps use `pilotlight hang`",
    b"PAR1": "a parquet file: not a trace that this command reads",
}


@dataclass(frozen=True)
class FileResult:
    traces: tuple[Trace, ...]
    problems: tuple[Problem, ...]


def read_traces(
    paths: Sequence[Path],
    workers: int = os.cpu_count() or 1,
    progress: Callable[[int], None] = lambda count_bytes: None,
    memory_bytes: int | None = None,
) -> TraceSet:
    """Every rank that can be read, and a problem for each file or place that cannot.

    `progress` is told, from any thread, how many bytes of the files more were read. Columns of JSON
    traces beyond `memory_bytes` go to files without a name; half of the free memory if None.
    """
    if memory_bytes is None:
        memory_bytes = available_bytes() // 2
    _scan.set_budget(memory_bytes, tempfile.gettempdir())
    files, problems, captured = _files(paths)
    # The scanner and the inflater let other threads run.
    with ThreadPoolExecutor(max(1, min(len(files), workers))) as pool:
        results = list(pool.map(lambda path: read_file(path, progress), files))
    traces = [
        placed(trace, captured[path]) if path in captured else trace
        for path, result in zip(files, results, strict=True)
        for trace in result.traces
    ]
    problems += itertools.chain.from_iterable(result.problems for result in results)
    kept, rank_problems = _ranks(traces)
    return TraceSet(kept, (*problems, *rank_problems))


def read_file(path: Path, progress: Callable[[int], None] = lambda count_bytes: None) -> FileResult:
    """The traces of one file; never raises for what the file contains."""
    name = str(path)
    try:
        if path.is_dir():
            traces = read_recording(path)
            return FileResult(traces, _problems_of(traces))
        if name.endswith(SUFFIX):
            traces = read_xplane(path)
            return FileResult(traces, _problems_of(traces))
        with path.open("rb") as file:
            magic = file.read(16)
            file.seek(0)
            if magic == SQLITE_MAGIC:
                traces = read_sqlite(path)
                return FileResult(traces, _problems_of(traces))
            for start, text in _OTHER_MAGIC.items():
                if magic.startswith(start):
                    raise FormatError(f"{name}: byte 0: {text}")
            packed_bytes = os.fstat(file.fileno()).st_size if magic[:2] == GZIP_MAGIC else 0
            return _read_stream(_Told(file, progress), name, packed_bytes)
    except FormatError as error:
        return FileResult((), (_problem(name, str(error)),))
    except OSError as error:
        return FileResult((), (Problem(name, "", error.strerror or str(error)),))


class _Told:
    """A file that tells how much of it was read."""

    def __init__(self, file: Source, progress: Callable[[int], None]) -> None:
        self._file = file
        self._progress = progress

    def read(self, size: int, /) -> bytes:
        block = self._file.read(size)
        self._progress(len(block))
        return block


def read_sqlite(path: Path) -> tuple[Trace, ...]:
    with opened(path) as database:
        if is_nsys(database):
            return read_nsys(database, str(path))
        if is_rocpd(database):
            return read_rocpd(database, str(path))
    raise FormatError(f"{path}: an SQLite file of another tool: no table of Nsight or ROCm in it")


def _read_stream(file: Source, name: str, packed_bytes: int) -> FileResult:
    cuts: list[Problem] = []
    blocks = expanded(file, name)
    if packed_bytes > THREAD_BYTES:
        blocks = ahead(blocks)
    blocks = _noting_cuts(blocks, name, cuts)
    first = next(blocks, b"")
    if not first:
        raise FormatError(f"{name}: " + (f"{cuts[0].text}: nothing to read" if cuts else "empty"))
    blocks = itertools.chain((first,), blocks)
    if first[257:262] == b"ustar":
        result = _read_tar(BlockFile(blocks), name)
        return FileResult(result.traces, (*result.problems, *cuts))
    traces: tuple[Trace, ...]
    try:
        if looks_like_perfetto(first):
            traces = read_perfetto(blocks, name)
        elif name.endswith(NCU_SUFFIX) or looks_like_ncu(first[:4096]):
            traces = (read_ncu(blocks, name),)
        else:
            traces = (read_kineto(blocks, name),)
    except FormatError:
        if cuts:
            raise FormatError(str(cuts[0])) from None
        raise
    problems = _problems_of(traces)
    if cuts:
        # That the text ends early says nothing that the cut does not.
        problems = tuple(one for one in problems if "ends inside" not in one.text)
    return FileResult(traces, (*problems, *cuts))


def _noting_cuts(blocks: Iterator[bytes], name: str, cuts: list[Problem]) -> Iterator[bytes]:
    try:
        yield from blocks
    except Truncated as error:
        cuts.append(Problem(name, "", str(error)))


def _read_tar(file: BlockFile, name: str) -> FileResult:
    traces: list[Trace] = []
    problems: list[Problem] = []
    try:
        with tarfile.open(fileobj=file, mode="r|") as archive:  # type: ignore[call-overload]
            for count, member in enumerate(archive):
                if count >= MAX_FILES:
                    problems.append(Problem(name, "", f"more than {MAX_FILES} members"))
                    break
                inner = archive.extractfile(member) if member.isfile() else None
                if inner is None or not member.name.endswith((".json", ".json.gz")):
                    continue
                try:
                    result = _read_stream(inner, f"{name}:{member.name}", 0)
                    traces += result.traces
                    problems += result.problems
                except FormatError as error:
                    problems.append(_problem(name, str(error)))
    except tarfile.TarError as error:
        problems.append(Problem(name, "", f"damaged tar archive ({error})"))
    if not traces and not problems:
        problems.append(Problem(name, "", "no .json member in the archive"))
    return FileResult(tuple(traces), tuple(problems))


def _problem(name: str, message: str) -> Problem:
    """A FormatError already names its file."""
    return Problem(name, "", message.removeprefix(f"{name}: "))


def _problems_of(traces: tuple[Trace, ...]) -> tuple[Problem, ...]:
    return tuple(itertools.chain.from_iterable(trace.problems for trace in traces))


def _files(paths: Sequence[Path]) -> tuple[list[Path], list[Problem], dict[Path, Captured]]:
    """The files, what is wrong with the paths, and what a capture says of its own files."""
    files: list[Path] = []
    problems: list[Problem] = []
    captured: dict[Path, Captured] = {}
    for path in paths:
        if path.is_dir() and is_recording(path):
            files.append(path)
        elif path.is_dir() and is_capture(path):
            try:
                named = captured_files(path)
            except FormatError as error:
                problems.append(_problem(str(path), str(error)))
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
            files += sorted(found[:MAX_FILES])
        elif path.exists() or path.is_symlink():
            files.append(path)
        else:
            raise NotFound(f"{path}: no such file or folder")
    return files, problems, captured


def _files_below(folder: Path) -> Iterator[Path]:
    for root, _, names in os.walk(folder, followlinks=False):
        for name in names:
            if name.endswith(TRACE_SUFFIXES):
                yield Path(root, name)


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
