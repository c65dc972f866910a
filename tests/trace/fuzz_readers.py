"""The readers written in Python under a coverage-guided fuzzer.

    python tests/trace/fuzz_readers.py perfetto|xplane|ncu|flight_recorder [libFuzzer options]

Any bytes have to be read or refused with a FormatError that names the file.
"""

from __future__ import annotations

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


def _instrument(module: ModuleType) -> None:
    """Every function of a module and of its classes."""
    for holder in (module, *(v for v in vars(module).values() if isinstance(v, type))):
        for value in list(vars(holder).values()):
            if isinstance(value, FunctionType) and value.__module__ == module.__name__:
                atheris.instrument_func(value)


def main() -> None:
    read = READERS[sys.argv.pop(1)]

    def one(data: bytes) -> None:
        try:
            read(data)
        except FormatError as error:
            assert str(error).startswith(str(FILE)), error

    # Not while they are imported: the importer of an editable installation is not seen then.
    for name, module in list(sys.modules.items()):
        if name.startswith("pilotlight.trace."):
            _instrument(module)
    atheris.Setup(sys.argv, one)
    atheris.Fuzz()


if __name__ == "__main__":
    main()
