from __future__ import annotations

import json
import socket
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
