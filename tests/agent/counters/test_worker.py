from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator

import pytest

from pilotlight.agent.counters import worker as worker_module
from pilotlight.agent.counters.source import (
    Counter,
    Reading,
    Source,
    SourceFailed,
    SourceMissing,
)
from pilotlight.agent.counters.worker import BLOCKED_NS, Worker

ONE = Reading(((Counter("gpu0", "power", "W"), 1.0),))


class Scripted:
    """A source that does what it is told, one step a read."""

    name = "scripted"

    def __init__(self, *steps: Callable[[], Reading]) -> None:
        self.steps: Iterator[Callable[[], Reading]] = iter(steps)
        self.reads = 0
        self.threads: set[int] = set()

    def read(self) -> Reading:
        self.reads += 1
        self.threads.add(threading.get_ident())
        return next(self.steps, lambda: ONE)()

    def describe(self) -> str:
        return "as told"


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., Worker]]:
    monkeypatch.setattr(worker_module, "_FIRST_WAIT_S", 0.02)
    workers: list[Worker] = []

    def make(open_source: Callable[[], Source]) -> Worker:
        one = Worker("test", open_source, 10_000_000, time.monotonic_ns())
        workers.append(one)
        return one

    yield make
    for one in workers:
        one.stop()


def until(condition: Callable[[], object]) -> None:
    deadline = time.monotonic() + 10
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.005)


def fails(error: Exception) -> Callable[[], Reading]:
    def step() -> Reading:
        raise error

    return step


def state(one: Worker, later_ns: int = 0) -> str:
    return one.condition(time.monotonic_ns() + later_ns).state


def test_nothing_is_read_while_nobody_records(made: Callable[..., Worker]) -> None:
    source = Scripted()
    one = made(lambda: source)
    time.sleep(0.05)
    assert source.reads == 0 and state(one) == "idle"
    one.want(True)
    until(lambda: len(one.take()) > 0)
    one.want(False)
    time.sleep(0.03)
    before = source.reads
    time.sleep(0.05)
    assert source.reads <= before + 1


def test_a_call_that_does_not_return_is_blocked_and_goes_on_afterwards(
    made: Callable[..., Worker],
) -> None:
    release = threading.Event()

    def wait() -> Reading:
        release.wait(10)
        return ONE

    source = Scripted(lambda: ONE, wait)
    one = made(lambda: source)
    one.want(True)
    until(lambda: source.reads == 2)
    assert state(one) == "ok" and state(one, BLOCKED_NS + 1) == "blocked"
    assert one.condition(time.monotonic_ns() + BLOCKED_NS + 1).counts["blocked"] == 1
    assert source.reads == 2 and len(source.threads) == 1
    release.set()
    until(lambda: source.reads > 3)
    assert state(one) == "ok" and len(source.threads) == 1


def test_a_source_that_is_not_there_is_looked_for_again(made: Callable[..., Worker]) -> None:
    answers: list[Source | SourceMissing] = [SourceMissing("no driver", "load it"), Scripted()]

    def open_source() -> Source:
        answer = answers.pop(0)
        if isinstance(answer, SourceMissing):
            raise answer
        return answer

    one = made(open_source)
    one.want(True)
    until(lambda: state(one) == "missing")
    condition = one.condition(time.monotonic_ns())
    assert (condition.detail, condition.fix) == ("no driver", "load it")
    until(lambda: state(one) == "ok")


@pytest.mark.parametrize(
    "error", [SourceFailed("gone"), ValueError("a binding may raise anything")]
)
def test_a_source_that_fails_is_opened_again_after_a_pause(
    made: Callable[..., Worker], error: Exception
) -> None:
    opened: list[Scripted] = []

    def open_source() -> Source:
        opened.append(Scripted(fails(error)) if not opened else Scripted())
        return opened[-1]

    one = made(open_source)
    one.want(True)
    until(lambda: state(one) == "failing")
    until(lambda: state(one) == "ok")
    assert len(opened) == 2 and one.condition(time.monotonic_ns()).counts["failing"] == 1


def test_pauses_grow_to_a_minute(monkeypatch: pytest.MonkeyPatch) -> None:
    pauses: list[float] = []

    class Stopped(threading.Event):
        def wait(self, timeout: float | None = None) -> bool:
            pauses.append(timeout or 0)
            if len(pauses) == 8:
                self.set()
            return self.is_set()

    def never() -> Source:
        raise SourceMissing("no")

    one = Worker("test", never, 10_000_000, time.monotonic_ns())
    one._stopped = Stopped()
    one._wanted.set()
    one._run()
    assert pauses == [2, 4, 8, 16, 32, 60, 60, 60]


def test_readings_that_nobody_takes_are_dropped_and_counted(made: Callable[..., Worker]) -> None:
    source = Scripted()
    one = made(lambda: source)
    one.want(True)
    until(lambda: source.reads > 20)
    assert len(one.take()) <= 16
    assert one.condition(time.monotonic_ns()).counts["dropped"] > 0
