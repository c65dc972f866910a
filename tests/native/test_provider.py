"""The table that the probe offers to device libraries (docs/providers.md)."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from pilotlight import _probe

_ASK = """
import ctypes, sys
from pilotlight import _probe

library = ctypes.CDLL(sys.argv[1] or _probe.__file__)
entry = library.pilotlight_provider_api
entry.restype = ctypes.c_void_p
"""

_TABLE = """
class Table(ctypes.Structure):
    _fields_ = [(name, ctypes.c_uint32) for name in ("version", "bytes", "abi", "writer_bytes")]
    _fields_ += [
        (name, ctypes.c_void_p)
        for name in (
            "collecting", "run", "tier", "steps",
            "ring", "string", "track", "stack", "range", "mark", "counter",
        )
    ]

table = Table.from_address(entry(1))
stack = ctypes.PYFUNCTYPE(ctypes.c_uint32)(table.stack)
"""


def _ask(code: str, library: str = "") -> str:
    return subprocess.run(
        [sys.executable, "-c", _ASK + _TABLE + code, library],
        env={**os.environ, "PILOTLIGHT": "1", "PILOTLIGHT_RUNTIME_DIR": "/nonexistent"},
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    ).stdout.strip()


def test_only_a_table_of_the_asked_version_is_given() -> None:
    assert _ask("print(table.version, table.bytes == ctypes.sizeof(Table), entry(999))") == (
        "1 True None"
    )


def test_the_same_stack_has_the_same_id_and_another_has_another() -> None:
    code = """
def one(): return stack()
def two(): return stack()
first = [one() for _ in range(3)]
second = [two() for _ in range(3)]
print(len(set(first)), len(set(second)), first[0] != second[0], 0 not in (first[0], second[0]))
"""
    assert _ask(code) == "1 1 True True"


def test_a_thread_without_python_frames_has_no_stack() -> None:
    code = """
libc = ctypes.CDLL(None)
found = ctypes.c_void_p()
thread = ctypes.c_ulong()
libc.pthread_create(ctypes.byref(thread), None, ctypes.c_void_p(table.stack), None)
libc.pthread_join(thread, ctypes.byref(found))
print((found.value or 0) & 0xffffffff)
"""
    assert _ask(code) == "0"


def test_steps_reach_the_providers() -> None:
    code = """
count = ctypes.c_uint64.from_address(table.steps)
before = count.value
for _ in range(5):
    _probe.step()
print(count.value - before)
"""
    assert _ask(code) == "5"


def test_the_core_starts_where_no_probe_runs() -> None:
    core = str(Path(_probe.__file__).parent / "libpilotlight_core.so")
    assert _ask("print(table.version, stack())", core) == "1 0"


def test_a_lock_that_a_fork_left_set_neither_hangs_nor_hides_what_is_lost(
    program: Callable[[str, str], Path], run: Callable[..., subprocess.CompletedProcess[str]]
) -> None:
    done = run(program("brief_lock_test", "g++"))
    assert (done.returncode, done.stdout.splitlines()[-1:]) == (0, ["all hold"]), done.stdout
