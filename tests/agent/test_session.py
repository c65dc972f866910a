from __future__ import annotations

import json
import socket
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pilotlight.agent.session import Broken, Session

Pair = tuple[Session, socket.socket]


@pytest.fixture
def pair() -> Iterator[Pair]:
    ours, theirs = socket.socketpair()
    theirs.settimeout(5)
    yield Session(ours, 1, 0), theirs
    ours.close()
    theirs.close()


def line(number: int, size: int = 100) -> bytes:
    return json.dumps({"kind": "steps", "n": number, "pad": "x" * size}).encode() + b"\n"


def drain(session: Session, theirs: socket.socket) -> list[dict[str, object]]:
    data = b""
    theirs.setblocking(False)
    while True:
        assert session.send()
        try:
            data += theirs.recv(1 << 20)
        except BlockingIOError:
            if not session.has_output:
                return [json.loads(one) for one in data.splitlines()]


def test_requests_come_in_any_pieces(pair: Pair) -> None:
    session, theirs = pair
    got = []
    for byte in b'{"want": "status"}\n\n{"want": "flush"}\n':
        theirs.send(bytes([byte]))
        got += session.receive() or []
    assert got == [{"want": "status"}, {"want": "flush"}]


def test_a_hang_up_is_none_and_silence_is_nothing(pair: Pair) -> None:
    session, theirs = pair
    assert session.receive() == []
    theirs.close()
    assert session.receive() is None


def test_a_line_without_end_is_broken(pair: Pair) -> None:
    session, theirs = pair
    theirs.setblocking(False)
    with pytest.raises(Broken, match="longer than"):
        while True:
            theirs.send(b"x" * 60_000)
            session.receive()


def test_the_oldest_messages_are_dropped_and_the_lag_is_told_first(pair: Pair) -> None:
    session, theirs = pair
    session.limit_bytes = 1000
    for number in range(100):
        session.publish(line(number))
    assert session.queued_bytes <= 1000
    messages = drain(session, theirs)
    assert messages[0] == {"kind": "lag", "queued": len(messages) - 1, "dropped": session.dropped}
    numbers = [message["n"] for message in messages[1:]]
    assert numbers == list(range(100 - len(numbers), 100))
    assert session.dropped == 100 - len(numbers) > 0


def test_answers_are_never_dropped(pair: Pair) -> None:
    session, theirs = pair
    session.limit_bytes = 200
    for number in range(20):
        session.answer({"ok": True, "n": number})
        session.publish(line(number))
    answers = [message["n"] for message in drain(session, theirs) if message.get("ok")]
    assert answers == list(range(20))


def test_an_answer_that_is_too_long_becomes_an_error(pair: Pair) -> None:
    session, theirs = pair
    session.answer({"ok": True, "text": "x" * (2 << 20)})
    (answer,) = drain(session, theirs)
    assert answer["ok"] is False and "longer" in str(answer["error"])


def test_a_line_that_is_partly_sent_is_finished(pair: Pair) -> None:
    session, theirs = pair
    session.publish(line(0, 1_000_000))
    session.send()
    session.limit_bytes = 0
    session.shrink()
    session.publish(line(1))
    messages = drain(session, theirs)
    assert messages[0]["n"] == 0
    assert messages[-1]["kind"] in ("steps", "lag")


@given(st.lists(st.tuples(st.booleans(), st.integers(0, 300)), max_size=60), st.integers(0, 2000))
def test_whatever_is_queued_the_bytes_add_up(steps: list[tuple[bool, int]], limit: int) -> None:
    ours, theirs = socket.socketpair()
    session = Session(ours, 1, 0)
    session.limit_bytes = limit
    published = 0
    for is_answer, size in steps:
        if is_answer:
            session.answer({"ok": True, "pad": "x" * size})
        else:
            session.publish(line(published, size))
            published += 1
    messages = drain(session, theirs)
    received = sum(message.get("kind") == "steps" for message in messages)
    assert received + session.dropped == published
    assert session.queued_bytes == 0
    ours.close()
    theirs.close()
