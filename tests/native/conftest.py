"""Builds the C++ test programs, as they are and with mistakes put in."""

from __future__ import annotations

import re
import shutil
import subprocess
import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest
from tests.building import building

ROOT = Path(__file__).parents[2]
NATIVE = ROOT / "native"
BUILD_SECONDS = 600
STAGES = ("ring", "drain")


@pytest.fixture(scope="session")
def program() -> Callable[[str, str], Path]:
    """program(target, compiler) builds one target of native/tests and returns its path."""

    def build(target: str, compiler: str) -> Path:
        for tool in ("cmake", compiler):
            if shutil.which(tool) is None:
                pytest.skip(f"{tool} is not installed")
        folder = ROOT / "build" / f"native-tests-{compiler}"
        with building(folder):
            finish(["cmake", "-S", NATIVE / "tests", "-B", folder,
                    f"-DCMAKE_CXX_COMPILER={compiler}"])  # fmt: skip
            finish(["cmake", "--build", folder, "--target", target, "-j2"])
        return folder / target

    return build


@dataclass(frozen=True)
class Mutant:
    """A program of native/tests compiled against code with one mistake in it.

    `old` stands exactly once in the file of native/ and becomes `new`. `kept` has what other
    mutants have compiled of the same code.
    """

    folder: Path
    kept: Path

    def build(
        self, source: str, file: str, old: str, new: str, compiler: str, flags: Sequence[str]
    ) -> Path:
        if shutil.which(compiler) is None:
            pytest.skip(f"{compiler} is not installed")
        for stage in STAGES:
            shutil.copytree(NATIVE / stage, self.folder / stage)
        text = (self.folder / file).read_text()
        assert text.count(old) == 1, f"{file} has changed: {old!r}"
        (self.folder / file).write_text(text.replace(old, new))
        compile = [compiler, "-std=c++17", "-O0", "-g", "-w", f"-I{NATIVE / 'tests'}", *flags]
        parts = []
        for name in [f"tests/{source}", *_needed(source)]:
            is_changed = file in _read_with(name)
            tree = self.folder if is_changed else NATIVE
            made = (self.folder if is_changed else self.kept) / _object(name, compile)
            if not made.exists():
                code = NATIVE / name if name.startswith("tests/") else tree / name
                finish([*compile, f"-I{tree}", "-c", code, "-o", made])
            parts.append(made)
        finish([compiler, "-pthread", *flags, *parts, "-o", self.folder / "mutant"])
        return self.folder / "mutant"


def _read_with(name: str) -> set[str]:
    """The file of native/ and all that it includes of it."""
    seen: set[str] = set()
    left = [name]
    while left:
        seen.add(name := left.pop())
        for included in re.findall(r'#include "(.+)"', (NATIVE / name).read_text()):
            found = included if (NATIVE / included).exists() else f"tests/{included}"
            if found not in seen:
                left.append(found)
    return seen


def _object(name: str, compile: Sequence[str]) -> str:
    return f"{name.replace('/', '-')}-{zlib.crc32(' '.join(compile).encode()):08x}.o"


def _needed(source: str) -> list[str]:
    # ring.h alone needs nothing; the bindings need Python, and nothing here does.
    if source == "ring_test.cpp":
        return []
    found = [path for stage in STAGES for path in (NATIVE / stage).glob("*.cpp")]
    return sorted(str(path.relative_to(NATIVE)) for path in found if path.name != "module.cpp")


@pytest.fixture(scope="session")
def kept(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("objects")


@pytest.fixture
def mutant(tmp_path: Path, kept: Path) -> Mutant:
    return Mutant(tmp_path, kept)


@pytest.fixture
def run() -> Callable[..., subprocess.CompletedProcess[str]]:
    """run(command...) to its end, at most two minutes."""

    def to_its_end(*command: object) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [str(part) for part in command], capture_output=True, text=True, timeout=120
        )

    return to_its_end


def finish(command: Sequence[object]) -> None:
    done = subprocess.run(
        [str(part) for part in command], capture_output=True, text=True, timeout=BUILD_SECONDS
    )
    assert done.returncode == 0, done.stdout + done.stderr
