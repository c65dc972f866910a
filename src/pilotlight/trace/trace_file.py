"""One file of any format as the traces in it, told by its content."""

from __future__ import annotations

import itertools
import os
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from pilotlight.errors import FormatError
from pilotlight.trace.block import GZIP_MAGIC, BlockFile, Source, Truncated, ahead, expanded
from pilotlight.trace.device_lanes import by_device
from pilotlight.trace.kineto import read_kineto
from pilotlight.trace.merged_ranks import by_rank
from pilotlight.trace.problem import Problem
from pilotlight.trace.trace import Trace

XPLANE_SUFFIX = ".xplane.pb"
PERFETTO_SUFFIXES = (".pftrace", ".perfetto-trace", ".perfetto")
NCU_SUFFIX = ".csv"
TRACE_SUFFIXES = (
    *(".json", ".json.gz", ".tar", ".tar.gz", ".tgz", ".sqlite", ".db", ".rpd", XPLANE_SUFFIX),
    *PERFETTO_SUFFIXES,
    *(f"{suffix}.gz" for suffix in PERFETTO_SUFFIXES),
)
MAX_MEMBERS = 100_000
# A line break is also how a trace of Perfetto's begins, whose next byte can be a brace.
_JSON = re.compile(rb'[{\[]|\s+\{\s*"[\w.-]{1,64}"\s*:')
THREAD_BYTES = 256 << 10  # a smaller file is inflated before a thread has started
SQLITE_MAGIC = b"SQLite format 3\0"
PARQUET_MAGIC = b"PAR1"
_OTHER_MAGIC = {
    b"PK\x03\x04": "a zip archive: unpack it first",
    b"\x28\xb5\x2f\xfd": "zstd data: unpack it first",
    **{
        bytes((0x80, protocol)): "a pickle: for flight-recorder dumps use `pilotlight hang`"
        for protocol in range(2, 6)
    },
}

# JSON, and once unpacked other files, that tools beside the profilers write.
_NO_TRACES: tuple[tuple[re.Pattern[bytes], str], ...] = (
    (re.compile(re.escape(SQLITE_MAGIC)), "SQLite within gzip: unpack it first"),
    (re.compile(rb'\{\s*"rocprofiler-sdk-tool"'),
     "JSON of rocprofv3: record with --output-format rocpd or pftrace"),
    (re.compile(rb'\{\s*"schema"\s*:\s*"[\d.]+(?:-chakra[\d.]*)?"\s*,\s*"pid"'),
     "an execution trace of PyTorch (ExecutionTraceObserver): it has no times of the device; record"
     " with torch.profiler"),
    (re.compile(rb"\[\s*\[\s*-?\d"),
     "a memory timeline of PyTorch: it has no spans; record with torch.profiler"),
)  # fmt: skip

# What reads another format than JSON is imported when a file of that format comes: together they
# would take as much memory and time as most traces.


@dataclass(frozen=True)
class FileResult:
    traces: tuple[Trace, ...]
    problems: tuple[Problem, ...]


def read_file(path: Path, progress: Callable[[int], None] = lambda count_bytes: None) -> FileResult:
    """The traces of one file; never raises for what the file contains."""
    name = str(path)
    try:
        if path.is_dir():
            from pilotlight.trace.recorded import read_recording

            traces = read_recording(path)
            return FileResult(traces, _problems_of(traces))
        if name.endswith(XPLANE_SUFFIX):
            from pilotlight.trace.xplane import read_xplane

            traces = read_xplane(path)
            return FileResult(traces, _problems_of(traces))
        # To open a pipe would wait for somebody who writes it; and what is read once is gone.
        if path.exists() and not path.is_file():
            raise FormatError(f"{name}: no regular file: write it to one first")
        with path.open("rb") as file:
            magic = file.read(16)
            file.seek(0)
            if magic == SQLITE_MAGIC:
                traces = read_sqlite(path)
                return FileResult(traces, _problems_of(traces))
            if magic.startswith(PARQUET_MAGIC):
                from pilotlight.trace.parquet_reader import read_parquet

                traces = read_parquet(path)
                return FileResult(traces, _problems_of(traces))
            for start, text in _OTHER_MAGIC.items():
                if magic.startswith(start):
                    raise FormatError(f"{name}: byte 0: {text}")
            packed_bytes = os.fstat(file.fileno()).st_size if magic[:2] == GZIP_MAGIC else 0
            return _read_stream(_Told(file, progress), name, packed_bytes)
    except FormatError as error:
        return FileResult((), (problem_of(name, error),))
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
    from pilotlight.trace.nsys import is_nsys, read_nsys
    from pilotlight.trace.rocpd import is_rocpd, read_rocpd
    from pilotlight.trace.sqlite import opened

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
    for start, text in _NO_TRACES:
        if start.match(first):
            raise FormatError(f"{name}: byte 0: {text}")
    blocks = itertools.chain((first,), blocks)
    if first[257:262] == b"ustar":
        result = _read_tar(BlockFile(blocks), name)
        return FileResult(result.traces, (*result.problems, *cuts))
    try:
        traces = _traces_of(blocks, first, name)
    except FormatError:
        if cuts:
            raise FormatError(str(cuts[0])) from None
        raise
    problems = _problems_of(traces)
    if cuts:
        # That the text ends early says nothing that the cut does not.
        problems = tuple(one for one in problems if "ends inside" not in one.text)
    return FileResult(traces, (*problems, *cuts))


def _traces_of(blocks: Iterator[bytes], first: bytes, name: str) -> tuple[Trace, ...]:
    if _JSON.match(first):
        return _of_chrome(read_kineto(blocks, name))
    from pilotlight.trace.ncu import looks_like_ncu, read_ncu
    from pilotlight.trace.perfetto import looks_like_perfetto, read_perfetto

    if looks_like_perfetto(first):
        return read_perfetto(blocks, name)
    if name.endswith(NCU_SUFFIX) or looks_like_ncu(first[:4096]):
        return (read_ncu(blocks, name),)
    return _of_chrome(read_kineto(blocks, name))


def _of_chrome(trace: Trace) -> tuple[Trace, ...]:
    return tuple(part for one in by_rank(trace) for part in by_device(one))


def _noting_cuts(blocks: Iterator[bytes], name: str, cuts: list[Problem]) -> Iterator[bytes]:
    try:
        yield from blocks
    except Truncated as error:
        cuts.append(Problem(name, "", str(error)))


def _read_tar(file: BlockFile, name: str) -> FileResult:
    import tarfile

    traces: list[Trace] = []
    problems: list[Problem] = []
    try:
        with tarfile.open(fileobj=file, mode="r|") as archive:  # type: ignore[call-overload]
            for count, member in enumerate(archive):
                if count >= MAX_MEMBERS:
                    problems.append(Problem(name, "", f"more than {MAX_MEMBERS} members"))
                    break
                inner = archive.extractfile(member) if member.isfile() else None
                if inner is None or not member.name.endswith((".json", ".json.gz")):
                    continue
                place = f"{name}:{member.name}"
                try:
                    result = _read_stream(inner, place, 0)
                    traces += result.traces
                    problems += result.problems
                except FormatError as error:
                    problems.append(problem_of(place, error))
    except tarfile.TarError as error:
        problems.append(Problem(name, "", f"damaged tar archive ({error})"))
    if not traces and not problems:
        problems.append(Problem(name, "", "no .json member in the archive"))
    return FileResult(tuple(traces), tuple(problems))


def problem_of(name: str, error: FormatError) -> Problem:
    """A FormatError already names its file."""
    return Problem(name, "", str(error).removeprefix(f"{name}: "))


def _problems_of(traces: tuple[Trace, ...]) -> tuple[Problem, ...]:
    return tuple(itertools.chain.from_iterable(trace.problems for trace in traces))
