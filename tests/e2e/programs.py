"""Programs of native/tests, compiled with NVIDIA's own headers, and recordings of them."""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from pilotlight import _probe
from pilotlight.recording.recording import Recording

ROOT = Path(__file__).parents[2]
BUILD = ROOT / "build" / "programs"
LIBRARIES = Path(_probe.__file__).parent


def nvidia_headers(file: str) -> Path:
    spec = importlib.util.find_spec("nvidia")
    for place in (spec.submodule_search_locations or []) if spec else []:
        for header in Path(place).glob(f"*/include/{file}"):
            return header.parents[len(Path(file).parts) - 1]
    pytest.skip(f"{file} is not installed")


def compiled(source: str, *flags: str) -> Path:
    """Builds one file of native/tests, if it is newer than what is there."""
    path = ROOT / "native" / "tests" / source
    compiler = "c++" if path.suffix == ".cpp" else "cc"
    if shutil.which(compiler) is None:
        pytest.skip("no compiler")
    made = BUILD / path.relative_to(ROOT / "native" / "tests").with_suffix("")
    made.parent.mkdir(parents=True, exist_ok=True)
    if not made.exists() or made.stat().st_mtime < path.stat().st_mtime:
        beside = made.with_name(f"{made.name}.{os.getpid()}")
        subprocess.run(
            [compiler, "-O1", "-g", "-Wall", "-Wextra", "-Werror", str(path), "-o", str(beside),
             f"-I{ROOT / 'native'}", *flags, "-ldl", "-lpthread"],
            check=True,
        )  # fmt: skip
        beside.replace(made)
    return made


def record(
    world: Path, command: list[str], environment: dict[str, str], name: str = "job"
) -> tuple[Recording, str]:
    """Runs a command under `pilotlight run`: its recording, and what it printed."""
    ended = subprocess.run(
        [sys.executable, "-m", "pilotlight", "run", "-q", "--name", name, "--", *command],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert ended.returncode == 0, ended.stderr
    return Recording.open(world / "data" / "recordings" / name), ended.stdout


def rows(recording: Recording, table: str) -> list[dict[str, object]]:
    """The rows of a table of detail in order of time, with the text of their name."""
    columns = recording.detail(table)
    names = recording.names.find(columns["process"], columns["name"]).tolist()
    time = next(key for key in ("start_ns", "time_ns", "process") if key in columns.arrays)
    return [
        {
            **{key: array[row].item() for key, array in columns.arrays.items()},
            "name": recording.names.texts[names[row]],
        }
        for row in np.argsort(columns[time], kind="stable").tolist()
    ]
