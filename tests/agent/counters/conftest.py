"""A simulated libnvidia-ml, and trees that look like /proc and /sys."""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
SIMULATION = ROOT / "native" / "tests" / "gpu_sim"
BUILD = ROOT / "build" / "gpu-sim"


def nvidia_headers() -> Path:
    spec = importlib.util.find_spec("nvidia")
    for place in (spec.submodule_search_locations or []) if spec else []:
        for header in Path(place).glob("*/include/nvml.h"):
            return header.parent
    pytest.skip("nvml.h is not installed (pip install nvidia-nvml-dev)")


def compiled(source: str, target: str, *flags: str) -> Path:
    """Builds one file of the simulation, if it is newer than what is there."""
    if shutil.which("cc") is None:
        pytest.skip("no C compiler")
    made = BUILD / target
    made.parent.mkdir(parents=True, exist_ok=True)
    path = SIMULATION / source
    if not made.exists() or made.stat().st_mtime < path.stat().st_mtime:
        beside = made.with_name(f"{made.name}.{os.getpid()}")
        command = ["cc", "-O1", "-g", "-Wall", "-Wextra", "-Werror", "-Wno-deprecated-declarations"]
        subprocess.run(
            [*command, *flags, f"-I{nvidia_headers()}", str(path), "-o", str(beside), "-lpthread"],
            check=True,
        )
        beside.replace(made)
    return made


@pytest.fixture(scope="session")
def nvml_path() -> Path:
    return compiled("nvml.c", "now/libnvidia-ml.so.1", "-shared", "-fPIC")


@pytest.fixture(scope="session")
def old_nvml_path() -> Path:
    return compiled("nvml.c", "old/libnvidia-ml.so.1", "-shared", "-fPIC", "-DNVML_SIM_OLD")


@pytest.fixture(scope="session")
def nvml_layout() -> dict[str, int]:
    """What the header says of sizes, places and numbers."""
    program = compiled("nvml_layout.c", "nvml_layout")
    said = subprocess.run([program], capture_output=True, text=True, check=True).stdout
    return {name: int(value) for name, value in map(str.split, said.splitlines())}


@dataclass
class Orders:
    """The file that tells the simulated library what to do."""

    path: Path
    serial: int = 0

    def __call__(self, *lines: str) -> None:
        before = self.path.stat().st_mtime_ns if self.path.exists() else 0
        self.path.write_text("\n".join([*lines, ""]))
        # Its time tells the library that it has changed.
        os.utime(self.path, ns=(before + 1_000_000, max(time.time_ns(), before + 1_000_000)))


@pytest.fixture
def orders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Orders:
    made = Orders(tmp_path / "orders")
    monkeypatch.setenv("PILOTLIGHT_SIM_NVML", str(made.path))
    # getenv of C sees what os.environ sets.
    made("devices 2", "gpm 1", "mig 0")
    return made


@pytest.fixture
def tree(tmp_path: Path) -> Callable[[dict[str, str]], Path]:
    """tree({"proc/stat": "..."}) writes files under a root and returns it."""

    def write(files: dict[str, str]) -> Path:
        for name, text in files.items():
            path = tmp_path / "root" / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        return tmp_path / "root"

    return write
