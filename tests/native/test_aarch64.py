"""The ring and the segment on the other architecture, cross-compiled and run by an emulator."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

NATIVE = Path(__file__).parents[2] / "native"
COMPILER, EMULATOR = "aarch64-linux-gnu-g++", "qemu-aarch64"


def emulated(target: str, folder: Path) -> str:
    for tool in (COMPILER, EMULATOR):
        if shutil.which(tool) is None:
            pytest.skip(f"{tool} is not installed")
    made = folder / target
    flags = ["-std=c++17", "-O1", "-static", "-pthread", "-Wall", "-Wextra", "-Werror"]
    sources = [NATIVE / "tests" / f"{target}.cpp", *sorted((NATIVE / "ring").glob("*.cpp"))]
    built = [COMPILER, *flags, f"-I{NATIVE}", f"-I{NATIVE / 'tests'}", *sources, "-o", made]
    subprocess.run(built, check=True, timeout=300)
    done = subprocess.run([EMULATOR, made], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_writer_keeps_its_promises(tmp_path: Path) -> None:
    promises = emulated("ring_test", tmp_path).splitlines()
    assert "a_full_ring_drops_the_newest_and_counts" in promises


def test_a_segment_is_laid_out_the_same(
    tmp_path: Path, program: Callable[[str, str], Path], run: Callable[..., Any]
) -> None:
    here = run(program("segment_layout", "g++")).stdout
    assert emulated("segment_layout", tmp_path) == here
