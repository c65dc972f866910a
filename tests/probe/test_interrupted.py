"""What comes between the probe and the program it is in: forks and interrupts."""

from __future__ import annotations

import _thread
import os
import queue
import subprocess
import sys

from pilotlight.probe.activate import is_about_to_exec


def test_a_fork_that_only_executes_another_program_starts_no_probe() -> None:
    program = """
import os, subprocess, sys
from pilotlight import _probe
told, tell = os.pipe()
def preexec():
    os.write(tell, b"%d" % _probe.status()["started"])
subprocess.run(["true"], preexec_fn=preexec, pass_fds=[tell])
if os.fork() == 0:
    preexec()
    os._exit(0)
os.wait()
print(os.read(told, 9))
"""
    ended = subprocess.run(
        [sys.executable, "-c", program],
        env={**os.environ, "PILOTLIGHT": "1"},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert (ended.stdout, ended.stderr) == ("b'01'\n", "")


def test_a_fork_by_a_library_without_any_python_code_starts_a_probe() -> None:
    answers: queue.SimpleQueue[bool] = queue.SimpleQueue()

    def forked() -> None:
        answers.put(is_about_to_exec())

    _thread.start_new_thread(forked, ())
    assert answers.get(timeout=10) is False


def test_an_interrupt_that_comes_while_adapters_look_around_is_the_programs() -> None:
    program = """
import time
from pilotlight import _probe
assert _probe.start("", b"{}", 0, None) is None
def second():
    raise KeyboardInterrupt
_probe.each_second(second)
try:
    for _ in range(3):
        _probe.step()
        time.sleep(0.02)
    print("gone")
except KeyboardInterrupt:
    print("raised")
_probe.turn_off("\u00e9" * 150)
print(len(_probe.status()["off"]) > 50)
"""
    ended = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=60
    )
    assert (ended.stdout, ended.stderr) == ("raised\nTrue\n", "")
