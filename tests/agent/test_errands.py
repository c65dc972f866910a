"""What processes say on the errand socket: the agent believes none of it."""

from __future__ import annotations

import json
import os
import selectors
import socket
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from pilotlight.agent.errands import Errands

SECOND_NS = 1_000_000_000


class Desk:
    """The agent's side, and a process that is asked."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.selector = selectors.DefaultSelector()
        listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_NONBLOCK)
        listener.bind(str(path))
        listener.listen()
        self.errands = Errands(self.selector, listener)
        self.process = self.connect()
        self.answers: list[object] = []

    def connect(self) -> socket.socket:
        process = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        process.settimeout(5)
        process.connect(str(self.path))
        self.turn()
        return process

    def turn(self) -> None:
        for key, mask in self.selector.select(0.05):
            key.data(mask)

    def ask(self) -> dict[str, object]:
        """As the process reads it."""
        self.errands.ask(os.getpid(), {"do": "facts"}, SECOND_NS, self.answers.append)
        line: dict[str, object] = json.loads(self.process.recv(4096))
        return line

    def say(self, text: bytes) -> None:
        self.process.sendall(text)
        self.turn()


@pytest.fixture
def desk(world: Path) -> Iterator[Desk]:
    made = Desk(world / "errand.sock")
    yield made
    made.errands.close()
    made.process.close()


def test_a_process_is_asked_and_answers(desk: Desk) -> None:
    asked = desk.ask()
    assert asked["do"] == "facts"
    desk.say(json.dumps({"id": asked["id"], "steps": 7}).encode() + b"\n")
    assert desk.answers == [{"id": asked["id"], "steps": 7}]


def test_one_that_does_not_answer_is_given_up_and_may_answer_late(desk: Desk) -> None:
    asked = desk.ask()
    desk.errands.tick(time.monotonic_ns() + 2 * SECOND_NS)
    (answer,) = desk.answers
    assert isinstance(answer, dict) and "GIL" in answer["error"]
    desk.say(json.dumps({"id": asked["id"]}).encode() + b"\n")
    assert len(desk.answers) == 1
    assert desk.errands.reaches(os.getpid())


@pytest.mark.parametrize(
    "text",
    [b"\0\xff\n", b"[]\n", b'{"id": "x"}\n', b'{"id": 99}\n', b'{"id": true}\n', b"x" * 70_000],
    ids=["bytes", "list", "text", "not asked", "truth", "endless"],
)
def test_nonsense_ends_the_link_and_is_an_error_for_whoever_asked(desk: Desk, text: bytes) -> None:
    desk.ask()
    desk.say(text)
    while desk.errands.reaches(os.getpid()):
        desk.turn()
    (answer,) = desk.answers
    assert isinstance(answer, dict) and answer["error"]


def test_one_that_hangs_up_or_was_never_there_is_an_error_at_once(desk: Desk) -> None:
    desk.ask()
    desk.process.close()
    desk.turn()
    desk.errands.ask(os.getpid(), {"do": "facts"}, SECOND_NS, desk.answers.append)
    assert len(desk.answers) == 2
    assert all(isinstance(answer, dict) and answer["error"] for answer in desk.answers)


def test_one_that_connects_again_is_asked_on_its_new_link(desk: Desk) -> None:
    before, desk.process = desk.process, desk.connect()
    before.close()
    assert desk.ask()["do"] == "facts"
