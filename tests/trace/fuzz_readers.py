"""The readers written in Python under a coverage-guided fuzzer.

    python tests/trace/fuzz_readers.py perfetto|xplane|ncu|flight_recorder [libFuzzer options]

Any bytes have to be read or refused with a FormatError that names the file.
"""

from __future__ import annotations

import json
import pickle
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from types import FunctionType, ModuleType

import atheris

from pilotlight.errors import FormatError
from pilotlight.trace.flight_recorder import read_dump
from pilotlight.trace.ncu import read_ncu
from pilotlight.trace.perfetto import read_perfetto
from pilotlight.trace.xplane import read_xplane

FILE = Path(tempfile.mkdtemp()) / "fuzzed"


def _written(read: Callable[[Path], object]) -> Callable[[bytes], object]:
    def on_disk(data: bytes) -> object:
        FILE.write_bytes(data)
        return read(FILE)

    return on_disk


READERS: dict[str, Callable[[bytes], object]] = {
    "perfetto": lambda data: read_perfetto(iter([data]), str(FILE)),
    "ncu": lambda data: read_ncu(iter([data]), str(FILE)),
    "xplane": _written(read_xplane),
    "flight_recorder": _written(lambda path: read_dump(path, 0)),
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
        if module_name.startswith("pilotlight.trace."):
            _instrument(module)
    atheris.Setup(sys.argv, one)
    atheris.Fuzz()


if __name__ == "__main__":
    main()
