"""The C++ programs of native/tests, built when a benchmark needs them."""

from __future__ import annotations

import importlib.util
import subprocess
import sysconfig
from pathlib import Path
from types import ModuleType

ROOT = Path(__file__).parents[1]
BUILD = ROOT / "build" / "native-tests-g++"


def program(target: str) -> Path | None:
    """The built program, or None where the build leaves it out because its library is missing."""
    tests = ROOT / "native" / "tests"
    _finish("cmake", "-S", tests, "-B", BUILD, "-DCMAKE_CXX_COMPILER=g++")
    if f"... {target}\n" not in _finish("cmake", "--build", BUILD, "--target", "help"):
        return None
    _finish("cmake", "--build", BUILD, "--target", target, "-j2")
    return BUILD / target


def extension(name: str, source: str) -> ModuleType:
    """A Python module compiled from one file of native/tests."""
    file = ROOT / "build" / f"{name}{sysconfig.get_config_var('EXT_SUFFIX')}"
    _finish("g++", "-std=c++17", "-O2", "-shared", "-fPIC", f"-I{sysconfig.get_path('include')}",
            ROOT / "native" / "tests" / source, "-o", file)  # fmt: skip
    spec = importlib.util.spec_from_file_location(name, file)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def columns(text: str) -> dict[str, list[float]]:
    """What a program prints: a line of names, then a line of numbers a repeat."""
    names, *rows = (line.split() for line in text.splitlines())
    return {name: [float(row[i]) for row in rows] for i, name in enumerate(names)}


def _finish(*command: object) -> str:
    done = subprocess.run([str(part) for part in command], capture_output=True, text=True)
    if done.returncode != 0:
        raise SystemExit(f"{command[0]} failed:\n{done.stdout}{done.stderr}")
    return done.stdout
