"""Every other Python on this machine as the job's own."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from functools import cache
from pathlib import Path

import pytest
from tests.e2e.conftest import Job
from tests.pythons import HERE, STACKS_CAN_BE_READ, UNKNOWN, python_of

ROOT = Path(__file__).resolve().parents[2]
VERSIONS = [version for version in STACKS_CAN_BE_READ if version != HERE]
WARN_OF_FORKS = [version for version in VERSIONS if version not in ("3.10", "3.11")]

PROGRAM = """
import threading, pilotlight
def leaf(n):
    total = 0
    for i in range(n): total += i
    return total
def root():
    for _ in range(400): leaf(20_000)
thread = threading.Thread(target=root, name="second")
thread.start()
for i in range(50):
    pilotlight.step(i)
    with pilotlight.annotate("range"): leaf(20_000)
root()
thread.join()
"""


# What this program has to say, on its own: of its second fork, which has a thread beside it.
FORKING = """
import os, threading, time
def fork():
    child = os.fork()
    if child == 0: os._exit(0)
    os.waitpid(child, 0)
fork()
os.forkpty()[0] or os._exit(0)
threading.Thread(target=time.sleep, args=(0.5,)).start()
fork()
"""

OF_INTERPRETERS = """
try:
    import _interpreters as interpreters
except ImportError:
    import _xxsubinterpreters as interpreters
one = interpreters.create()
interpreters.run_string(one, "print('in another')")
interpreters.destroy(one)
"""


@pytest.fixture(scope="module")
def python_with_pilotlight(
    tmp_path_factory: pytest.TempPathFactory,
) -> Callable[[str], str]:
    """The Python of a version in an environment that has the package, built once."""

    @cache
    def found(version: str) -> str:
        python = python_of(version)
        if python is None:
            pytest.skip(f"Python {version} is not installed here")
        return installed(python, tmp_path_factory.mktemp(f"python{version}"))

    return found


def installed(python: str, folder: Path) -> str:
    """The package, built for that Python and installed into an environment of its own."""
    build = folder / "build"
    definitions = {
        "CMAKE_BUILD_TYPE": "Release",
        "CMAKE_CXX_FLAGS_RELEASE": "-O0 -DNDEBUG",
        "Python_EXECUTABLE": python,
        "SKBUILD_PLATLIB_DIR": f"{folder}/platlib",
        "nanobind_ROOT": nanobind_folder(),
        "PILOTLIGHT_STRICT": "ON",
    }
    cmake("-S", str(ROOT), "-B", str(build), "-G", "Ninja", *_defined(definitions))
    cmake("--build", str(build), "--target", "_probe")
    subprocess.run([python, "-m", "venv", "--without-pip", folder / "venv"], check=True)
    venv_python = folder / "venv" / "bin" / "python"
    site = next((folder / "venv" / "lib").glob("python*/site-packages"))
    shutil.copytree(ROOT / "src" / "pilotlight", site / "pilotlight")
    for library in build.glob("_probe*.so"):
        shutil.copy(library, site / "pilotlight")
    shutil.copy(ROOT / "native" / "pilotlight.pth", site)
    return str(venv_python)


@cache
def nanobind_folder() -> str:
    words = [sys.executable, "-m", "nanobind", "--cmake_dir"]
    return subprocess.run(words, capture_output=True, text=True, check=True).stdout.strip()


def _defined(values: dict[str, str]) -> list[str]:
    return [f"-D{name}={value}" for name, value in values.items()]


def cmake(*words: str) -> None:
    tools = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    env = {**os.environ, "PATH": tools}
    subprocess.run(["cmake", *words], check=True, capture_output=True, env=env)


@pytest.mark.timeout(400)
@pytest.mark.parametrize("version", VERSIONS)
def test_a_job_on_this_python_is_recorded(
    version: str,
    job: Callable[..., Job],
    program: Callable[[str], str],
    python_with_pilotlight: Callable[[str], str],
) -> None:
    done = job(python_with_pilotlight(version), program(PROGRAM), timeout=120)
    assert done.code == 0, done.err
    (process,) = done.processes
    assert process["how"] == "exit"
    assert process["identity"]["python"].startswith(f"{version}.")
    assert done.names("spans").count("range") == 50
    assert {"leaf", "root"} <= done.functions
    assert "second" in done.recording.thread_names.values()


@pytest.mark.timeout(400)
def test_a_job_on_a_python_whose_stacks_are_unknown_keeps_its_ranges_and_says_why_none_are_read(
    job: Callable[..., Job],
    program: Callable[[str], str],
    python_with_pilotlight: Callable[[str], str],
) -> None:
    done = job(python_with_pilotlight(UNKNOWN), program(PROGRAM), timeout=120)
    assert done.code == 0, done.err
    (process,) = done.processes
    assert process["how"] == "exit"
    assert process["off"] == "stacks can be read on Python 3.10 to 3.14 only"
    assert done.names("spans").count("range") == 50
    assert not {"leaf", "root"} & done.functions


@pytest.mark.timeout(400)
@pytest.mark.parametrize("version", WARN_OF_FORKS)
def test_python_warns_of_forks_beside_threads_of_the_program_and_not_beside_ours(
    version: str,
    job: Callable[..., Job],
    program: Callable[[str], str],
    python_with_pilotlight: Callable[[str], str],
) -> None:
    python, path = python_with_pilotlight(version), program(FORKING)
    alone = subprocess.run([python, path], capture_output=True, text=True, timeout=60)
    done = job(python, path, options=("-q",))
    assert done.code == 0, done.err
    assert alone.stderr.count("is multi-threaded, use of fork()") == 1
    assert re.sub(r"pid=\d+", "", done.err) == re.sub(r"pid=\d+", "", alone.stderr)


@pytest.mark.timeout(400)
@pytest.mark.parametrize("version", WARN_OF_FORKS)
def test_a_second_interpreter_of_a_recorded_process_is_no_process_that_was_not_recorded(
    version: str,
    job: Callable[..., Job],
    program: Callable[[str], str],
    python_with_pilotlight: Callable[[str], str],
) -> None:
    done = job(python_with_pilotlight(version), program(OF_INTERPRETERS))
    assert (done.code, done.out) == (0, "in another\n"), done.err
    assert "recorded 1 process," in done.err
    assert "not recorded" not in done.err
