"""The readers written in Python under a coverage-guided fuzzer.

    python tests/trace/fuzz_readers.py perfetto|xplane|ncu|flight_recorder|nsys|tar|job [options]

Any bytes have to be read or refused with a FormatError that names the file; the options are
libFuzzer's. For nsys the bytes choose columns to leave out and values to put in, of an export that
is diagnosed as well; for tar they replace a part of an archive; for job they choose the events of
up to three ranks, which are analysed with all tables.
"""

from __future__ import annotations

import io
import json
import pickle
import shutil
import sys
import tarfile
import tempfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from random import Random
from types import FunctionType, ModuleType
from typing import Any

import atheris

sys.path.insert(0, str(Path(__file__).parents[2]))

from tests.trace import nsys_tables

from pilotlight.analysis import analyze
from pilotlight.errors import FormatError
from pilotlight.insights.catalogue import diagnose
from pilotlight.insights.job import job_of
from pilotlight.trace.flight_recorder import read_dump
from pilotlight.trace.ncu import read_ncu
from pilotlight.trace.perfetto import read_perfetto
from pilotlight.trace.trace_file import read_file, read_sqlite
from pilotlight.trace.xplane import read_xplane

FILE = Path(tempfile.mkdtemp()) / "fuzzed"


def _written(read: Callable[[Path], object]) -> Callable[[bytes], object]:
    def on_disk(data: bytes) -> object:
        FILE.write_bytes(data)
        return read(FILE)

    return on_disk


def _export(data: bytes) -> object:
    """Which columns are missing and what is in the others, as the bytes say."""
    chosen = atheris.FuzzedDataProvider(data)
    cells = nsys_tables.CELLS
    missing = [cells[chosen.ConsumeIntInRange(0, len(cells) - 1)]
               for _ in range(chosen.ConsumeIntInRange(0, 12))]  # fmt: skip
    changed: dict[tuple[str, str], object] = {}
    for _ in range(chosen.ConsumeIntInRange(0, 8)):
        values = (chosen.ConsumeInt(8), chosen.ConsumeFloat(), chosen.ConsumeBytes(40), None,
                  chosen.ConsumeUnicode(40).encode("utf-8", "replace").decode())  # fmt: skip
        cell = cells[chosen.ConsumeIntInRange(0, len(cells) - 1)]
        changed[cell] = values[chosen.ConsumeIntInRange(0, len(values) - 1)]
    FILE.unlink(missing_ok=True)
    traces = read_sqlite(nsys_tables.write(FILE, missing, changed, copies=3))
    return diagnose(job_of([replace(trace, rank=i) for i, trace in enumerate(traces)]))


_CATEGORIES = (
    "kernel", "gpu_memcpy", "gpu_memset", "cuda_runtime", "cuda_sync", "cpu_op", "user_annotation",
    "python_function", "gpu_user_annotation", "",
)  # fmt: skip
_NAMES = (
    "gemm", "ncclDevKernel_AllReduce", "cudaLaunchKernel", "cudaStreamSynchronize", "cudaMalloc",
    "ProfilerStep#1", "ProfilerStep#2", "ProfilerStep#3", "ProfilerStep#4", "aten::mm",
    "enumerate(DataLoader)#next", "load_batch", "torch.save", "Python GC", "c10d::allreduce_",
    "Torch-Compiled Region: dynamo_compile", "Optimizer.step#SGD.step", "softmax",
)  # fmt: skip
_SAID = (
    ("correlation", (1, 2, 3, 4)), ("Input Dims", ([[4, 8], [8, 16]], [], [[-1, 1 << 40]])),
    ("grid", ([132, 1, 1], [0, 0, 0])), ("Collective name", ("allreduce", "send")),
    ("In msg nelems", (0, 1 << 20)), ("Group size", (0, 2)), ("Process Group Name", ("0", "1")),
    ("step_num", ("0", "1")), ("bytes", (-1, 1 << 62)),
)  # fmt: skip


def _job(data: bytes) -> object:
    chosen = atheris.FuzzedDataProvider(data)
    folder = Path(tempfile.mkdtemp())
    try:
        for rank in range(chosen.ConsumeIntInRange(1, 3)):
            count = chosen.ConsumeIntInRange(1, 60)
            document = {"deviceProperties": [{"name": "NVIDIA H100 80GB HBM3"}],
                        "distributedInfo": {"rank": rank, "world_size": 3},
                        "traceEvents": [_event(chosen) for _ in range(count)]}  # fmt: skip
            (folder / f"{rank}.json").write_text(json.dumps(document))
        return analyze(folder).to_dict()
    finally:
        shutil.rmtree(folder)


def _event(chosen: Any) -> dict[str, object]:
    said = {
        key: chosen.PickValueInList(list(values))
        for key, values in _SAID
        if chosen.ConsumeIntInRange(0, 2) == 0
    }
    return {
        "ph": "X",
        "cat": chosen.PickValueInList(list(_CATEGORIES)),
        "name": chosen.PickValueInList(list(_NAMES)),
        "pid": chosen.ConsumeIntInRange(0, 2),
        "tid": chosen.ConsumeIntInRange(0, 2),
        "ts": chosen.ConsumeIntInRange(0, 5000),
        "dur": chosen.ConsumeIntInRange(0, 300),
        "args": said,
    }


def _archive() -> bytes:
    event = {"ph": "X", "cat": "kernel", "name": "k", "pid": 0, "tid": 7, "ts": 1, "dur": 2}
    content = json.dumps([event]).encode()
    written = io.BytesIO()
    with tarfile.open(fileobj=written, mode="w") as archive:
        for name in ("rank0.json", "rank1.json"):
            member = tarfile.TarInfo(name)
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
    return written.getvalue()


def _damaged_archive(data: bytes) -> object:
    """The first two bytes say where the others go."""
    whole = bytearray(_ARCHIVE)
    at = int.from_bytes(data[:2], "little") % len(whole)
    whole[at : at + len(data) - 2] = data[2:]
    FILE.write_bytes(whole)
    return read_file(FILE)


_ARCHIVE = _archive()

READERS: dict[str, Callable[[bytes], object]] = {
    "perfetto": lambda data: read_perfetto(iter([data]), str(FILE)),
    "ncu": lambda data: read_ncu(iter([data]), str(FILE)),
    "xplane": _written(read_xplane),
    "flight_recorder": _written(lambda path: read_dump(path, 0)),
    "nsys": _export,
    "tar": _damaged_archive,
    "job": _job,
}

# Small files to begin with: formats whose heads the fuzzer would hardly come upon.
_GROUPS = {"35": {"name": "35", "desc": "TP", "ranks": "[0, 1]"}}
_STATUS = {"5": {"last_enqueued_collective": 8, "last_completed_collective": 7}}
_ENTRY = {
    "pg_id": 5, "process_group": ("35", "TP"), "collective_seq_id": 8, "p2p_seq_id": 0,
    "profiling_name": "nccl:all_reduce", "state": "scheduled", "is_p2p": False,
}  # fmt: skip
_DUMP = {"version": "2.9", "pg_config": _GROUPS, "pg_status": _STATUS, "entries": [_ENTRY]}
SEEDS: dict[str, tuple[bytes, ...]] = {
    "ncu": (
        b'"ID","Kernel Name","Block Size","Grid Size","Metric Name","Metric Unit","Metric Value"\n'
        b'"0","gemm","(256, 1, 1)","(8, 2, 1)","Duration","usecond","1,234.5"\n',
        b'"ID","Kernel Name","Stream","Device","dram__bytes.sum","gpu__time_duration.sum"\n'
        b'"","","","","Mbyte","usecond"\n"0","gemm","7","0","2.5","10"\n',
    ),
    "flight_recorder": (pickle.dumps(_DUMP, protocol=2), json.dumps(_DUMP).encode()),
    "nsys": tuple(Random(number).randbytes(300) for number in range(8)),
    "job": tuple(Random(number).randbytes(1500) for number in range(8)),
}


def _instrument(module: ModuleType) -> None:
    """Every function of a module and of its classes."""
    for holder in (module, *(v for v in vars(module).values() if isinstance(v, type))):
        for value in list(vars(holder).values()):
            if isinstance(value, FunctionType) and value.__module__ == module.__name__:
                atheris.instrument_func(value)


def main() -> None:
    name = sys.argv.pop(1)
    read = READERS[name]
    seeds = Path(tempfile.mkdtemp())
    for number, content in enumerate(SEEDS.get(name, ())):
        (seeds / str(number)).write_bytes(content)
    # Last: what is found goes to the first folder.
    sys.argv.append(str(seeds))

    def one(data: bytes) -> None:
        try:
            read(data)
        except FormatError as error:
            assert str(error).startswith(str(FILE)), error

    # Not while they are imported: the importer of an editable installation is not seen then.
    for module_name, module in list(sys.modules.items()):
        if module_name.startswith(("pilotlight.trace.", "pilotlight.insights.")):
            _instrument(module)
    atheris.Setup(sys.argv, one)
    atheris.Fuzz()


if __name__ == "__main__":
    main()
