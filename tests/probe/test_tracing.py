"""Which versions of torch are made to ask the agent for traces."""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from pilotlight.probe.tracing import ask_for_traces, is_safe, waits_for_gpu


def torch_of(folder: Path, version: str, cuda: str = "None") -> str:
    said = f"__version__ = '{version}'\ndebug = False\ncuda: Optional[str] = {cuda}\nhip = None\n"
    (folder / "version.py").write_text(said)
    return str(folder / "__init__.py")


@pytest.mark.parametrize(
    ("version", "safe"),
    [
        ("2.13.0+cpu", True),
        ("2.10.0", True),
        ("2.10.1+cu130", True),
        ("3.0.0a0+git123", True),
        ("2.10.0.dev20250901", False),
        ("2.10.0a0+nv25.10", False),
        ("2.9.1", False),
        ("2.8.0+cu128", False),
        ("1.13.1", False),
        ("", False),
        ("unknown", False),
    ],
)
def test_only_versions_without_the_race_ask(version: str, safe: bool) -> None:
    assert is_safe(version) is safe


def test_a_new_torch_is_told_where_to_ask_and_to_keep_quiet(tmp_path: Path) -> None:
    environment = {"PILOTLIGHT_KINETO_DIR": "/run/k"}
    ask_for_traces(environment, torch_of(tmp_path, "2.13.0"), has_gpu=True)
    assert environment["KINETO_USE_DAEMON"] == "1"
    assert environment["KINETO_IPC_SOCKET_DIR"] == "/run/k"
    assert environment["KINETO_LOG_LEVEL"] == "4"


def test_a_level_that_the_user_chose_stays(tmp_path: Path) -> None:
    environment = {"PILOTLIGHT_KINETO_DIR": "/run/k", "KINETO_LOG_LEVEL": "0"}
    ask_for_traces(environment, torch_of(tmp_path, "2.13.0"), has_gpu=True)
    assert environment["KINETO_LOG_LEVEL"] == "0"


def test_an_older_torch_below_a_newer_one_does_not_ask(tmp_path: Path) -> None:
    environment = {"PILOTLIGHT_KINETO_DIR": "/run/k"}
    ask_for_traces(environment, torch_of(tmp_path, "2.13.0"), has_gpu=True)
    ask_for_traces(environment, torch_of(tmp_path, "2.8.0+cu128"), has_gpu=True)
    assert "KINETO_USE_DAEMON" not in environment
    assert "KINETO_IPC_SOCKET_DIR" not in environment


def test_a_daemon_of_the_users_is_left_alone(tmp_path: Path) -> None:
    environment = {"KINETO_USE_DAEMON": "1"}
    ask_for_traces(environment, torch_of(tmp_path, "2.8.0"), has_gpu=True)
    assert environment == {"KINETO_USE_DAEMON": "1"}


def test_a_torch_without_a_version_does_not_ask(tmp_path: Path) -> None:
    environment = {"PILOTLIGHT_KINETO_DIR": "/run/k"}
    ask_for_traces(environment, str(tmp_path / "__init__.py"), has_gpu=True)
    assert "KINETO_USE_DAEMON" not in environment


def test_with_a_gpu_it_does_not_ask_before_the_job_has_initialised_cuda(tmp_path: Path) -> None:
    """Else torch would do so while it is imported: pytorch/pytorch#171804."""
    environment = {"PILOTLIGHT_KINETO_DIR": "/run/k", "KINETO_USE_DAEMON": "1"}
    ask_for_traces(environment, torch_of(tmp_path, "2.13.0", "'13.0'"), has_gpu=True)
    assert "KINETO_USE_DAEMON" not in environment
    assert environment["KINETO_IPC_SOCKET_DIR"] == "/run/k"
    assert waits_for_gpu(environment)


def test_without_a_gpu_a_torch_for_cuda_asks_from_the_beginning(tmp_path: Path) -> None:
    environment = {"PILOTLIGHT_KINETO_DIR": "/run/k"}
    ask_for_traces(environment, torch_of(tmp_path, "2.13.0", "'13.0'"), has_gpu=False)
    assert environment["KINETO_USE_DAEMON"] == "1"
    assert not waits_for_gpu(environment)


_LATE = """
import os, socket, sys
listener = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
listener.bind(sys.argv[1] + "/dynolog")
listener.settimeout(30)
os.environ["KINETO_IPC_SOCKET_DIR"] = os.environ["PILOTLIGHT_KINETO_DIR"] = sys.argv[1]
import torch
from pilotlight.probe import tracing
queued = []
torch.cuda._lazy_call = queued.append  # as on a machine with a GPU, before it is used
tracing.after_torch(torch)
queued[0]()
print(len(listener.recv(65536)) > 0, tracing.waits_for_gpu(os.environ), flush=True)
os._exit(0)
"""


def test_torch_begins_to_ask_when_it_is_told_to() -> None:
    pytest.importorskip("torch")
    folder = Path(tempfile.mkdtemp(prefix="pl-"))  # short: it is a socket's
    environment = {**os.environ, "PILOTLIGHT": "0", "KINETO_LOG_LEVEL": "4"}
    try:
        done = subprocess.run(
            [sys.executable, "-c", _LATE, str(folder)],
            env=environment,
            capture_output=True,
            text=True,
            timeout=60,
        )
    finally:
        shutil.rmtree(folder)
    assert done.stdout.split() == ["True", "False"], done.stderr


_RAISES = """
#include <stdexcept>
namespace torch {
void global_kineto_init() { throw std::runtime_error("no such device"); }
}
"""
_BEGINS = """
import ctypes, os, sys, types
torch = types.ModuleType("torch")
torch.__file__ = sys.argv[1] + "/__init__.py"
sys.modules["torch"] = torch
ctypes.CDLL(sys.argv[1] + "/lib/libtorch_cpu.so")
from pilotlight.probe import activate, tracing
activate.leave_reason = print
tracing.begin_asking()
print("KINETO_USE_DAEMON" in os.environ)
"""


def test_what_torch_raises_when_it_begins_to_ask_does_not_end_the_job(tmp_path: Path) -> None:
    compiler = shutil.which("g++")
    if compiler is None:
        pytest.skip("g++ is not installed")
    (tmp_path / "lib").mkdir()
    (tmp_path / "kineto.cpp").write_text(_RAISES)
    library = tmp_path / "lib" / "libtorch_cpu.so"
    build = [compiler, "-shared", "-fPIC", "-o", str(library), str(tmp_path / "kineto.cpp")]
    subprocess.run(build, check=True)
    done = subprocess.run(
        [sys.executable, "-c", _BEGINS, str(tmp_path)], capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 0, done.stderr
    reason, is_left = done.stdout.splitlines()
    assert reason.startswith("no traces of PyTorch: RuntimeError: _ZN5torch18global_kineto_initEv")
    assert is_left == "False"


FORKS = """
import ctypes, os, signal, sys, time
import torch

# Until Kineto's thread waits for its next poll: a child's exit would wait for that thread.
time.sleep(2)
libc = ctypes.CDLL(None)
child = os.fork()
if not child:
    libc.printf(b"said by C, ")
    sys.exit(7)
signal.alarm(20)
_, status = os.waitpid(child, 0)
print("child", os.waitstatus_to_exitcode(status))
raise SystemExit(5)
"""


@pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="torch is not installed")
def test_a_forked_child_of_a_process_that_asks_for_traces_exits_as_ever() -> None:
    ended = subprocess.run(
        [sys.executable, "-m", "pilotlight", "run", "-q", "--", sys.executable, "-c", FORKS],
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert (ended.returncode, ended.stdout) == (5, "said by C, child 7\n"), ended.stderr
