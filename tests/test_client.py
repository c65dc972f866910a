from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from threading import Thread

import pytest

from pilotlight.client import Client
from pilotlight.errors import AgentError
from pilotlight.runtime import runtime


@pytest.fixture
def agent() -> Iterator[list[dict[str, object]]]:
    """Answers the first request with the lines that the test puts in."""
    lines: list[dict[str, object]] = []
    place = runtime().client_socket
    place.parent.mkdir(parents=True)
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listening:
        listening.bind(str(place))
        listening.listen()

        def serve() -> None:
            connection, _ = listening.accept()
            with connection:
                connection.recv(1 << 16)
                connection.sendall(b"".join(json.dumps(line).encode() + b"\n" for line in lines))

        thread = Thread(target=serve)
        thread.start()
        yield lines
        thread.join()


def test_what_comes_before_the_answer_waits_for_whoever_reads_on(
    agent: list[dict[str, object]],
) -> None:
    agent += [{"kind": "capture", "number": n} for n in range(2)] + [{"ok": True, "jobs": []}]
    with Client() as client:
        assert client.ask("status") == {"ok": True, "jobs": []}
        assert [client.next_line()["number"] for _ in range(2)] == [0, 1]


def test_an_agent_that_talks_without_answering_is_not_listened_to_for_ever(
    agent: list[dict[str, object]],
) -> None:
    agent += [{"kind": "capture"}] * 2000
    with Client() as client, pytest.raises(AgentError, match="no answer to `status`"):
        client.ask("status")


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can be another user")
def test_an_agent_of_another_user_is_not_talked_to() -> None:
    place = runtime().client_socket
    place.parent.mkdir(parents=True)
    listening = (
        "import os, socket, sys, time\n"
        "one = socket.socket(socket.AF_UNIX)\n"
        "one.bind(sys.argv[1]); os.setuid(65534); one.listen()\n"
        "print('ready', flush=True); time.sleep(60)"
    )
    with subprocess.Popen(
        [sys.executable, "-S", "-c", listening, place], stdout=subprocess.PIPE
    ) as other:
        assert other.stdout is not None and other.stdout.readline() == b"ready\n"
        try:
            with pytest.raises(AgentError, match="another user's"):
                Client()
        finally:
            other.kill()
