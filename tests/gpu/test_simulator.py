"""The simulated GPU does what the real libraries do, and ends who does what they forbid."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from tests.gpu.conftest import SIM

# A client of CUPTI's own interface, for kernels that `work` launches.
_CLIENT = f"""
import ctypes, os, sys, threading
sys.path.insert(0, {str(SIM)!r})
from play import Gpu
P, U, Z = ctypes.c_void_p, ctypes.c_uint32, ctypes.c_size_t
cupti = ctypes.CDLL(os.environ["CUPTI"])
hear = ctypes.CFUNCTYPE(None, P, U, U, P)(lambda *_: None)
memory, asked, bytes_of, answers = [], [], 1 << 16, []
def fresh():
    memory.append(ctypes.create_string_buffer(bytes_of + 8))
    return ctypes.addressof(memory[-1]) + 7 & ~7
give = fresh
@ctypes.CFUNCTYPE(None, ctypes.POINTER(P), ctypes.POINTER(Z), ctypes.POINTER(Z))
def request(data, size, most):
    asked.append(threading.get_native_id())
    data[0], size[0] = give(), bytes_of
complete_does = lambda: None
@ctypes.CFUNCTYPE(None, P, U, P, Z, Z)
def complete(*_):
    complete_does()
def subscribe():
    made = P()
    return cupti.cuptiSubscribe(ctypes.byref(made), hear, None), made
def collect():
    assert cupti.cuptiActivityRegisterCallbacks(request, complete) == 0
    assert cupti.cuptiActivityEnable(10) == 0
def work(kernels=10):
    gpu = Gpu()
    for _ in range(kernels): gpu.kernel("gemm", 100)
    gpu.sync()
def lost():
    count = Z()
    assert cupti.cuptiActivityGetNumDroppedRecords(None, 0, ctypes.byref(count)) == 0
    return count.value
class Params(ctypes.Structure):
    _fields_ = [("bytes", Z), ("name", P), ("old", P), ("old_bytes", Z), ("many", ctypes.c_uint8)]
def subscribe_v2(many, bytes_=40):
    made = P()
    return cupti.cuptiSubscribe_v2(
        ctypes.byref(made), hear, None, ctypes.byref(Params(bytes_, None, None, 0, many)))
"""


def run(simulator: Path, version: int, program: str) -> subprocess.CompletedProcess[str]:
    library = next((simulator / f"cupti-{version}").glob("libcupti.so*"))
    return subprocess.run(
        [sys.executable, "-c", _CLIENT + program],
        env={**os.environ, "LD_LIBRARY_PATH": f"{simulator}/lib", "CUPTI": str(library)},
        capture_output=True,
        text=True,
        timeout=60,
    )


_NO_BUFFER = "give = lambda: None\nsubscribe(); collect(); work(); cupti.cuptiActivityFlushAll(1)\n"


@pytest.mark.parametrize(
    ("version", "program", "said"),
    [
        (22, _NO_BUFFER, "no buffer given: CUPTI before 12.9 crashes"),
        (
            130001,  # buffers are per thread
            "same = fresh(); give = lambda: same\nsubscribe(); collect(); work()\n"
            "other = threading.Thread(target=work); other.start(); other.join()",
            "a buffer given twice",
        ),
        (28, "give = lambda: fresh() + 4\nsubscribe(); collect(); work()", "not aligned to 8"),
        (28, "bytes_of = 512\nsubscribe(); collect(); work()", "a buffer of less than 1 KiB"),
        (
            28,
            "complete_does = lambda: cupti.cuptiActivityFlushAll(0)\n"
            "subscribe(); collect(); work(); cupti.cuptiActivityFlushAll(1)",
            "cuptiActivityFlushAll inside a buffer callback",
        ),
        (
            28,
            "subscribe()\nif (child := os.fork()) == 0: cupti.cuptiActivityFlushAll(1)\n"
            "os.kill(os.getpid(), os.waitpid(child, 0)[1])",
            "a CUPTI call in a forked child",
        ),
        (28, "cupti.cuptiUnsubscribe(P(64))", "a subscriber that is none"),
        (28, "subscribe(); number = U(1)\n"
             "cupti.cuptiActivitySetAttribute(5, ctypes.byref(Z(4)), ctypes.byref(number))",
         "the attribute ZEROED_OUT_ACTIVITY_BUFFER has one byte"),
        (130401, "subscribe_v2(1, bytes_=32)", "CUpti_SubscriberParams with a wrong structSize"),
        (
            130000,
            "subscribe(); collect(); cupti.cuptiActivityDisable(10)",
            "13.0 GA deadlocks when kernel records are disabled",
        ),
    ],
)  # fmt: skip
def test_what_is_forbidden_ends_the_process(
    simulator: Path, version: int, program: str, said: str
) -> None:
    done = run(simulator, version, program)
    assert done.returncode == -signal.SIGABRT, done.stderr
    assert "gpu_sim: illegal: " in done.stderr and said in done.stderr


def test_records_without_a_buffer_are_counted_from_12_9_on(simulator: Path) -> None:
    done = run(simulator, 28, _NO_BUFFER + "print(lost(), lost())")
    assert (done.returncode, done.stdout) == (0, "10 0\n"), done.stderr


def test_buffers_are_asked_for_on_the_thread_that_launches(simulator: Path) -> None:
    done = run(
        simulator,
        28,
        "bytes_of = 1024\nsubscribe(); collect(); work(2000)\n"
        "print(threading.get_native_id() in asked)\n",
    )
    assert (done.returncode, done.stdout) == (0, "True\n"), done.stderr


def test_the_first_subscriber_decides_whether_there_may_be_others(simulator: Path) -> None:
    done = run(simulator, 130401, "print(subscribe_v2(0), subscribe_v2(1), subscribe()[0])")
    assert (done.returncode, done.stdout) == (0, "0 39 39\n"), done.stderr
    done = run(simulator, 130401, "print(subscribe_v2(1), subscribe_v2(1), subscribe()[0])")
    assert done.stdout.split()[:2] == ["0", "0"] and done.stdout.split()[2] != "0"


def test_13_0_has_a_part_of_the_second_interface_and_13_4_all_of_it(simulator: Path) -> None:
    program = (
        "names = ('Subscribe_v2', 'ActivityEnable_v2', 'ActivityRegisterCallbacks_v2')\n"
        "print([hasattr(cupti, 'cupti' + name) for name in names])"
    )
    assert run(simulator, 130001, program).stdout == "[True, False, False]\n"
    assert run(simulator, 130401, program).stdout == "[True, True, True]\n"
