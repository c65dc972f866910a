"""The way between agent and collector when it is bad: what was acknowledged is there, once."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip("chdb", reason="the collector needs pilotlight[server]")

from tests.collector.cable import Cable
from tests.collector.conftest import RunningCollector, until
from tests.collector.wire import CUT, HALF_OPEN, SLOW, WHOLE, Wire

from pilotlight.ship import sender as sending
from pilotlight.ship.outbox import Outbox
from pilotlight.ship.sender import Sender
from pilotlight.ship.target import Target
from pilotlight.simulate.fleet import WINDOW_NS, FleetJob, SimulatedAgent

COUNT = 6


@pytest.fixture(scope="module")
def collector(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningCollector]:
    running = RunningCollector(tmp_path_factory.mktemp("network") / "store")
    running.start()
    yield running
    running.stop()


@pytest.fixture
def wire(collector: RunningCollector, monkeypatch: pytest.MonkeyPatch) -> Iterator[Wire]:
    monkeypatch.setattr(sending, "_LONGEST_WAIT_S", 0.5)
    made = Wire(collector.port)
    yield made
    made.close()


def filled(folder: Path, job: str) -> Outbox:
    """An outbox with a minute of a job of two ranks, twenty steps a batch."""
    outbox = Outbox(folder, 1 << 20)
    first_ns = time.time_ns() // WINDOW_NS * WINDOW_NS - COUNT * WINDOW_NS
    agent = SimulatedAgent(FleetJob(job, 1, 2, first_node=len(job)), 0, first_ns)
    for number in range(COUNT):
        begin_ns = first_ns + number * WINDOW_NS
        outbox.put(1, number + 1, 20, agent.batch(begin_ns, begin_ns + WINDOW_NS))
    return outbox


def arrived(collector: RunningCollector, job: str) -> bool:
    """All steps of both ranks, each once."""
    found = [one for one in collector.get("/v1/jobs")["data"] if one["job"] == job]
    assert not found or found[0]["steps"] <= 10 * COUNT, "twice"
    return bool(found) and found[0]["steps"] == 10 * COUNT


def test_a_cut_network_delays_batches_and_loses_none(
    collector: RunningCollector, wire: Wire, tmp_path: Path
) -> None:
    outbox = filled(tmp_path / "outbox", "cut")
    sender = Sender(Target(wire.url, tmp_path), outbox)
    wire.bend(CUT)
    sender.start()
    sender.wake()
    until(lambda: sender.problems)
    assert len(outbox) == COUNT and sender.state == "away"
    wire.bend(WHOLE)
    until(lambda: len(outbox) == 0, 60)
    sender.stop(5)
    assert sender.sent == COUNT and outbox.lost.batches == 0
    until(lambda: arrived(collector, "cut"))


def test_a_network_that_is_cut_in_the_middle_of_a_batch_does_not_double_it(
    collector: RunningCollector, wire: Wire, tmp_path: Path
) -> None:
    outbox = filled(tmp_path / "outbox", "middle")
    sender = Sender(Target(wire.url, tmp_path), outbox)
    wire.bend(SLOW)
    sender.start()
    sender.wake()
    for _ in range(3):
        before = wire.passed_bytes
        until(lambda before=before: wire.passed_bytes > before + 600 or len(outbox) == 0)
        wire.bend(CUT)
        wire.bend(SLOW)
    wire.bend(WHOLE)
    until(lambda: len(outbox) == 0, 60)
    sender.stop(5)
    assert outbox.lost.batches == 0
    until(lambda: arrived(collector, "middle"))


def test_a_half_open_connection_is_given_up_and_the_batch_sent_again(
    collector: RunningCollector, wire: Wire, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Packets vanish and nobody says so."""
    monkeypatch.setattr(sending, "_TIMEOUT_S", 0.5)
    outbox = filled(tmp_path / "outbox", "halfopen")
    sender = Sender(Target(wire.url, tmp_path), outbox)
    wire.bend(HALF_OPEN)
    sender.start()
    sender.wake()
    until(lambda: any("TimeoutError" in problem for problem in sender.problems))
    assert len(outbox) == COUNT
    wire.bend(WHOLE)
    until(lambda: len(outbox) == 0, 60)
    sender.stop(5)
    assert sender.sent == COUNT and outbox.lost.batches == 0
    until(lambda: arrived(collector, "halfopen"))


@pytest.fixture
def cable() -> Iterator[Cable]:
    try:
        made = Cable(os.getpid() % 250)
    except (OSError, subprocess.CalledProcessError) as error:
        pytest.skip(f"no network namespaces here: {error}")
    yield made
    made.close()


def test_over_a_cable_that_is_slow_and_pulled_for_a_while_each_batch_comes_once(
    collector: RunningCollector, cable: Cable, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sending, "_LONGEST_WAIT_S", 0.5)
    monkeypatch.setattr(sending, "_TIMEOUT_S", 5.0)
    outbox = filled(tmp_path / "outbox", "cable")
    cable.slow("32kbit")
    # A collector without TLS answers on loopback only, so each end has its own way to the cable.
    here = Wire(collector.port, cable.address)
    with cable.other_side():
        there = Wire(here.port, target=cable.address)
        sender = Sender(Target(there.url, tmp_path), outbox)
        sender.start()
    sender.wake()
    until(lambda: here.passed_bytes > 600, 60)
    cable.pull()
    until(lambda: sender.problems, 60)
    assert len(outbox) > 0
    cable.plug()
    until(lambda: len(outbox) == 0, 120)
    sender.stop(5)
    there.close()
    here.close()
    assert outbox.lost.batches == 0
    until(lambda: arrived(collector, "cable"))


_AGENT = """
import sys, time
from pathlib import Path
from pilotlight.ship.outbox import Outbox
from pilotlight.ship.sender import Sender
from pilotlight.ship.target import Target
folder = Path(sys.argv[2])
outbox = Outbox(folder, 1 << 20)
sender = Sender(Target(sys.argv[1], folder), outbox)
sender.start()
sender.wake()
while len(outbox):
    time.sleep(0.01)
print("sent", flush=True)
time.sleep(60)
"""


def test_an_agent_that_is_killed_again_and_again_sends_each_batch_once(
    collector: RunningCollector, wire: Wire, tmp_path: Path
) -> None:
    """kill -9 while a batch is on its way; the next agent takes up the outbox."""
    filled(tmp_path, "killed")
    wire.bend(SLOW)
    for number in range(5):
        if number == 4:
            wire.bend(WHOLE)
        before = wire.passed_bytes
        agent = subprocess.Popen(
            [sys.executable, "-c", _AGENT, wire.url, str(tmp_path)], stdout=subprocess.PIPE
        )
        assert agent.stdout is not None
        if number < 4:
            until(lambda before=before: wire.passed_bytes > before + 900)
        else:
            assert agent.stdout.readline() == b"sent\n"
        agent.send_signal(signal.SIGKILL)
        agent.wait()
        agent.stdout.close()
    assert len(Outbox(tmp_path, 1 << 20)) == 0
    until(lambda: arrived(collector, "killed"))
