"""How a process ended is told by the kernel, whoever is its parent."""

from __future__ import annotations

import os
import platform
import signal
import socket
import time
from collections.abc import Callable

import pytest
from running import until

from pilotlight.agent.pidfd import exit_code, open_peer, open_process, process_start_time


def child(end: Callable[[], None]) -> int:
    pid = os.fork()
    if pid == 0:
        end()
        os._exit(77)
    return pid


def killed() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


@pytest.mark.parametrize(("end", "code"), [(lambda: os._exit(9), 9), (killed, -9)])
def test_the_end_is_known_before_and_after_the_parent_asked(
    end: Callable[[], None], code: int
) -> None:
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
    pid = child(lambda: time.sleep(60))
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

        def meet() -> None:
            connection = socket.socket(socket.AF_UNIX)
            connection.connect(listener.getsockname())
            os._exit(5)

        pid = child(meet)
        os.waitpid(pid, 0)
        met, _ = listener.accept()
        with met:
            handle = open_peer(met)
    if handle is None:
        pytest.skip("this kernel gives no handle on a peer that is gone")
    assert exit_code(handle, pid, 0) in (5, None)
    os.close(handle)
