"""What doctor says of MPS, by the socket of its control daemon."""

from __future__ import annotations

import socket
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from pilotlight.doctor.mps import mps_checks


@pytest.fixture
def pipes() -> Iterator[Path]:
    # Short: the name of a socket may have 107 bytes.
    with tempfile.TemporaryDirectory(prefix="pl-") as folder:
        yield Path(folder)


def test_without_a_daemon_and_a_wish_for_one_there_is_nothing_to_say(pipes: Path) -> None:
    assert mps_checks({}, pipes) == []


def test_a_folder_without_a_daemon_is_named(pipes: Path) -> None:
    (check,) = mps_checks({"CUDA_MPS_PIPE_DIRECTORY": str(pipes)})
    assert check.state == "limited" and str(pipes) in check.detail
    assert "nvidia-cuda-mps-control -d" in check.fix


def test_under_a_daemon_that_answers_it_says_what_works_and_what_does_not(pipes: Path) -> None:
    with socket.socket(socket.AF_UNIX) as daemon:
        daemon.bind(str(pipes / "control"))
        daemon.listen()
        (check,) = mps_checks({}, pipes)
    assert "kernels, copies, launches and counters of its clients are recorded" in check.detail
    assert "hardware events are not to be had" in check.detail and "quit" in check.fix


def test_a_socket_that_was_left_behind_is_no_daemon(pipes: Path) -> None:
    with socket.socket(socket.AF_UNIX) as daemon:
        daemon.bind(str(pipes / "control"))
    (check,) = mps_checks({}, pipes)
    assert "has ended" in check.detail
