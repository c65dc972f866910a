"""How a process ended is told by the kernel, whoever is its parent."""

from __future__ import annotations

import os
import platform
import signal
import socket
import sys

import pytest
from running import until

from pilotlight.agent.pidfd import exit_code, open_peer, open_process, process_start_time


def child(program: str) -> int:
    # By spawn: a fork of the test's own process would run what other tests have loaded.
    words = [sys.executable, "-S", "-c", program]
    return os.posix_spawn(sys.executable, words, dict(os.environ))


@pytest.mark.parametrize(
    ("end", "code"),
    [("import os; os._exit(9)", 9), ("import os; os.kill(os.getpid(), 9)", -9)],
)
def test_the_end_is_known_before_and_after_the_parent_asked(end: str, code: int) -> None:
    pid = child(end)
    start_time = process_start_time(pid) or 0
    handle = open_process(pid, start_time)
    assert handle is not None
    until(lambda: exit_code(handle, pid, start_time) is not None)
    assert exit_code(handle, pid, start_time) == code
    os.waitpid(pid, 0)
    release = tuple(int(number) for number in platform.release().split(".")[:2])
    assert exit_code(handle, pid, start_time) == (code if release >= (6, 15) else None)
    os.close(handle)


def test_who_lives_has_no_exit_code_and_a_later_one_of_the_same_pid_is_not_asked() -> None:
    pid = child("import time; time.sleep(60)")
    start_time = process_start_time(pid) or 0
    handle = open_process(pid, start_time)
    assert handle is not None
    assert exit_code(handle, pid, start_time) is None
    os.kill(pid, signal.SIGKILL)
    until(lambda: exit_code(handle, pid, start_time) == -9)
    assert exit_code(handle, pid, start_time + 1) is None
    os.waitpid(pid, 0)
    os.close(handle)


def test_a_peer_that_died_before_it_was_met_can_be_asked_about() -> None:
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(f"\0pilotlight-test-{os.getpid()}")
        listener.listen()

        name = listener.getsockname().decode()
        pid = child(
            f"import os, socket\nsocket.socket(socket.AF_UNIX).connect({name!r})\nos._exit(5)\n"
        )
        os.waitpid(pid, 0)
        met, _ = listener.accept()
        with met:
            handle = open_peer(met)
    if handle is None:
        pytest.skip("this kernel gives no handle on a peer that is gone")
    assert exit_code(handle, pid, 0) in (5, None)
    os.close(handle)
