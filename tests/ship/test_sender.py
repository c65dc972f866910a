"""The way from agent to collector as the agent walks it, against a collector that says no."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import pytest

from pilotlight.errors import UsageError
from pilotlight.ship.outbox import Outbox
from pilotlight.ship.sender import Sender
from pilotlight.ship.target import Target
from pilotlight.ship.wire import CLOCK_HEADER, PROTOCOL

Heard = tuple[float, str, str]


class Counter(ThreadingHTTPServer):
    """Speaks `protocols`, and answers posts by what is left in `answers`, then by 200."""

    def __init__(self, protocols: list[list[int]], answers: list[tuple[int, str]]) -> None:
        super().__init__(("127.0.0.1", 0), Window)
        self.protocols, self.answers = protocols, answers
        self.posts: list[Heard] = []


class Window(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: Counter

    def do_GET(self) -> None:
        self._say(200, {"protocols": self.server.protocols})

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["content-length"]))
        heard = (time.monotonic(), body.decode(), self.headers.get(CLOCK_HEADER, ""))
        self.server.posts.append(heard)
        status, after = self.server.answers.pop(0) if self.server.answers else (200, "")
        self._say(status, {"ok": status == 200, "error": "not now"}, after)

    def _say(self, status: int, content: dict[str, object], retry_after: str = "") -> None:
        now_ns = time.time_ns()
        data = json.dumps({**content, "received_ns": now_ns, "now_ns": now_ns}).encode()
        self.send_response(status)
        self.send_header("content-length", str(len(data)))
        if retry_after:
            self.send_header("retry-after", retry_after)
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def counters() -> Iterator[list[Counter]]:
    opened: list[Counter] = []
    yield opened
    for one in opened:
        one.shutdown()
        one.server_close()


def opened(
    counters: list[Counter], protocols: list[list[int]], answers: list[tuple[int, str]]
) -> Counter:
    made = Counter(protocols, answers)
    Thread(target=made.serve_forever, daemon=True).start()
    counters.append(made)
    return made


def sending(counter: Counter, folder: Path) -> tuple[Sender, Outbox]:
    outbox = Outbox(folder / "outbox", 1 << 20)
    for number in (1, 2):
        outbox.put(1, number, 1, f"batch {number}".encode())
    sender = Sender(Target(f"http://127.0.0.1:{counter.server_address[1]}", folder), outbox)
    sender.start()
    sender.wake()
    return sender, outbox


def wait_for(sender: Sender, condition: Callable[[Sender], object]) -> None:
    deadline = time.monotonic() + 60
    while not condition(sender):
        assert time.monotonic() < deadline, sender.problems
        time.sleep(0.02)


def test_a_collector_that_is_behind_is_left_alone_as_long_as_it_asks(
    counters: list[Counter], tmp_path: Path
) -> None:
    counter = opened(counters, [list(PROTOCOL)], [(429, "2")])
    sender, outbox = sending(counter, tmp_path)
    wait_for(sender, lambda one: one.sent == 2)
    sender.stop(5)
    (first, _, _), (second, _, _), _ = counter.posts
    assert second - first >= 2.0
    assert [body for _, body, _ in counter.posts] == ["batch 1", "batch 1", "batch 2"]
    assert len(outbox) == outbox.lost.batches == 0


def test_a_batch_that_no_collector_would_read_does_not_hold_up_the_others(
    counters: list[Counter], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pilotlight.ship.sender.BODY_LIMIT_BYTES", 6)
    counter = opened(counters, [list(PROTOCOL)], [])
    outbox = Outbox(tmp_path / "outbox", 1 << 20)
    for number, body in ((1, b"too long"), (2, b"short")):
        outbox.put(1, number, 1, body)
    url = f"http://127.0.0.1:{counter.server_address[1]}"
    sender = Sender(Target(url, tmp_path), outbox)
    sender.start()
    sender.wake()
    wait_for(sender, lambda one: one.sent == 1)
    sender.stop(5)
    assert [body for _, body, _ in counter.posts] == ["short"]
    assert outbox.lost.batches == 1 and "more than 6 bytes" in next(iter(sender.problems))


def test_every_batch_says_how_far_the_clocks_are_apart_and_how_sure_that_is(
    counters: list[Counter], tmp_path: Path
) -> None:
    counter = opened(counters, [list(PROTOCOL)], [])
    sender, _ = sending(counter, tmp_path)
    wait_for(sender, lambda one: one.sent == 2)
    sender.stop(5)
    assert all(re.fullmatch(r"-?\d+;\d+", clock) for _, _, clock in counter.posts)


def test_nothing_is_sent_to_a_collector_of_another_protocol_and_nothing_is_lost(
    counters: list[Counter], tmp_path: Path
) -> None:
    counter = opened(counters, [[PROTOCOL[0] + 1, 0]], [])
    sender, outbox = sending(counter, tmp_path)
    wait_for(sender, lambda one: one.problems)
    sender.stop(5)
    (problem,) = sender.problems
    assert f"speaks protocol [{PROTOCOL[0] + 1}], this agent {PROTOCOL[0]}" in problem
    assert counter.posts == [] and len(outbox) == 2


def test_the_log_says_why_a_collector_takes_nothing_and_when_it_does_again(
    counters: list[Counter], tmp_path: Path
) -> None:
    counter = opened(counters, [list(PROTOCOL)], [(401, ""), (401, "")])
    url = f"http://127.0.0.1:{counter.server_address[1]}"
    outbox = Outbox(tmp_path / "outbox", 1 << 20)
    outbox.put(1, 1, 1, b"batch")
    said: list[str] = []
    sender = Sender(Target(url, tmp_path), outbox, log=said.append)
    sender.start()
    wait_for(sender, lambda one: one.sent)
    assert said == [f"{url} takes nothing: 401 not now", f"{url} takes batches"]
    sender.stop(5)


def test_a_token_does_not_travel_in_the_clear(tmp_path: Path) -> None:
    token = tmp_path / "token"
    for url in ("http://collector:7777", "http://10.0.0.1:7777", "http://[2001:db8::1]:7777"):
        with pytest.raises(UsageError, match="in the clear"):
            Target(url, tmp_path, token_file=token)
    for url in ("http://localhost:7777", "http://127.0.0.1:7777", "http://[::1]:7777"):
        Target(url, tmp_path, token_file=token)
    Target("https://collector", tmp_path, token_file=token)
