"""Machines that lack something: a home to write to, shared memory, a compiler."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from tests.e2e.conftest import end_agent

from pilotlight.recording.recording import Recording

ROOT = Path(__file__).resolve().parents[2]
STEPS = "import pilotlight\nfor i in range(30): pilotlight.step(i)\nprint('done')\n"
BARE = """
mount --bind "$HOME" "$HOME" && mount -o remount,ro,bind "$HOME" || exit 77
umount -l /dev/shm || exit 77
! touch "$HOME/x" 2>/dev/null || exit 77
exec "$@"
"""


def test_a_job_is_recorded_with_a_read_only_home_and_no_shared_memory_folder(
    world: Path,
) -> None:
    home = world / "home"
    home.mkdir()
    program = world / "steps.py"
    program.write_text(STEPS)
    own = {name: value for name, value in os.environ.items() if name != "PILOTLIGHT_DATA_DIR"}
    done = subprocess.run(
        ["unshare", "-m", "sh", "-c", BARE, "sh", sys.executable, "-m", "pilotlight", "run", "--",
         sys.executable, str(program)],
        env={**own, "HOME": str(home)}, capture_output=True, text=True, timeout=120,
    )  # fmt: skip
    end_agent(world / "run")
    if done.returncode == 77 or "unshare failed" in done.stderr:
        pytest.skip("no mounts of its own may be made here")
    assert (done.returncode, done.stdout) == (0, "done\n"), done.stderr
    said = re.search(r"0 dropped: (\S+)", done.stderr)
    assert said is not None, done.stderr
    recording = Recording.open(Path(said[1]))
    try:
        assert recording.detail("steps")["step"].tolist() == list(range(29))
    finally:
        shutil.rmtree(said[1])


def test_without_a_compiler_the_build_says_what_to_install(tmp_path: Path) -> None:
    cmake, ninja = (shutil.which(tool, path=_tools()) for tool in ("cmake", "ninja"))
    if cmake is None or ninja is None:
        pytest.skip("cmake or ninja is not installed")
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "ninja").symlink_to(ninja)
    done = subprocess.run(
        [cmake, "-G", "Ninja", "-S", ROOT, "-B", tmp_path / "build"],
        env={"PATH": str(tmp_path / "bin")}, capture_output=True, text=True, timeout=120,
    )  # fmt: skip
    assert done.returncode != 0
    assert "needs a C++17 compiler" in done.stderr and "apt-get install g++" in done.stderr


def test_for_a_free_threaded_python_the_build_says_that_it_cannot(tmp_path: Path) -> None:
    """It would bring back the lock of the whole program; a Python that says of itself to be one."""
    cmake = shutil.which("cmake", path=_tools())
    if cmake is None or shutil.which("c++") is None:
        pytest.skip("cmake or a compiler is not installed")
    python = tmp_path / "python3t"
    answers = f'*Py_GIL_DISABLED*) echo 1;; *) exec {sys.executable} "$@";;'
    python.write_text(f'#!/bin/sh\ncase "$*" in {answers} esac\n')
    python.chmod(0o755)
    done = subprocess.run(
        [cmake, "-G", "Ninja", "-S", ROOT, "-B", tmp_path / "b", f"-DPython_EXECUTABLE={python}"],
        env={"PATH": _tools()}, capture_output=True, text=True, timeout=120,
    )  # fmt: skip
    assert done.returncode != 0
    assert "does not run in a free-threaded Python" in done.stderr


def _tools() -> str:
    return f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
