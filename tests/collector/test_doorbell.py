"""An agent that comes again, over a new connection, gets what is wanted of it."""

from __future__ import annotations

import http.client
import json
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

pytest.importorskip("chdb", reason="the collector needs pilotlight[server]")

from tests.collector.conftest import RunningCollector, until

from pilotlight.simulate.fleet import WINDOW_NS, FleetJob, SimulatedAgent


@pytest.fixture
def agent(running: RunningCollector) -> SimulatedAgent:
    """Of a job that runs."""
    now_ns = time.time_ns() // WINDOW_NS * WINDOW_NS
    agent = SimulatedAgent(FleetJob("nightly", ranks_per_node=2), 0, now_ns)
    running.ask("POST", "/v1/batches", agent.batch(now_ns - WINDOW_NS, now_ns))
    return agent


@contextmanager
def waiting(
    running: RunningCollector, agent: SimulatedAgent, wait_s: int = 25
) -> Iterator[http.client.HTTPConnection]:
    """The agent's connection, since half a second."""
    line = http.client.HTTPConnection("127.0.0.1", running.port, timeout=60)
    line.request("GET", f"/v1/requests?agent={agent.name}&wait={wait_s}")
    time.sleep(0.5)
    yield line
    line.close()


def ask_for_a_capture(running: RunningCollector) -> str:
    """As soon as its agent is known."""
    question = json.dumps({"job": "nightly", "seconds": 5}).encode()

    def asked() -> str:
        status, answer = running.ask("POST", "/v1/captures", question)
        return json.loads(answer)["data"]["id"] if status == 200 else ""

    return str(until(asked))


def come(line: http.client.HTTPConnection) -> list[str]:
    with line.getresponse() as answer:
        return [one["capture"] for one in json.loads(answer.read())["requests"]]


def test_what_is_asked_for_after_an_agent_hung_up_is_for_its_next_connection(
    running: RunningCollector, agent: SimulatedAgent
) -> None:
    with waiting(running, agent):
        pass
    time.sleep(0.5)
    id = ask_for_a_capture(running)
    with waiting(running, agent) as back:
        assert come(back) == [id]


def test_a_connection_that_died_unnoticed_takes_nothing_from_the_next(
    running: RunningCollector, agent: SimulatedAgent
) -> None:
    with waiting(running, agent, 8) as dead, waiting(running, agent) as alive:
        id = ask_for_a_capture(running)
        assert come(alive) == [id]
        assert come(dead) == []
