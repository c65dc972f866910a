"""The nodes of a capture agree on its first step, through the collector."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("chdb", reason="the collector needs pilotlight[server]")
from starlette.testclient import TestClient
from tests.collector.conftest import until

from pilotlight.collector.app import make_app
from pilotlight.collector.collector import Collector
from pilotlight.simulate.fleet import WINDOW_NS, FleetJob, agents_of
from pilotlight.store.place import parse_place

SLOW = {"steps": 100, "step_ns": 10**9, "needs_ns": 5 * 10**9}
FAST = {"steps": 300, "step_ns": 10**8, "needs_ns": 10**9}


class Asked:
    """A capture with steps of a job on two nodes, as its agents see it."""

    def __init__(self, client: TestClient) -> None:
        self.client = client
        now_ns = time.time_ns() // WINDOW_NS * WINDOW_NS
        agents = agents_of(FleetJob("job", 2, 2, step_ns=500_000_000), now_ns)
        for agent in agents:
            client.post("/v1/batches", content=agent.batch(now_ns - WINDOW_NS, now_ns))
        self.agents = [agent.name for agent in agents]
        question = {"job": "job", "steps": 3}
        answer = until(
            lambda: (
                asked
                if (asked := client.post("/v1/captures", json=question)).status_code == 200
                else None
            )
        )
        self.id = answer.json()["data"]["id"]

    def propose(self, number: int, proposal: object) -> tuple[int, dict[str, Any]]:
        place = f"/v1/agreement?capture={self.id}&agent={self.agents[number]}"
        answer = self.client.post(place, content=json.dumps(proposal))
        return answer.status_code, answer.json()

    def deliver(self, number: int, start_ns: int, first: int) -> None:
        steps = [
            {
                "rank": rank,
                "first": first,
                "last": first + 2,
                "start_ns": start_ns,
                "step_ns": 10**8,
            }
            for rank in (2 * number, 2 * number + 1)
        ]
        # The second node's clock is an hour behind the collector's.
        offset_ns = number * 3600 * 10**9
        answer = self.client.put(
            f"/v1/detail?capture={self.id}&agent={self.agents[number]}",
            content=b"archive",
            headers={
                "pilotlight-steps": json.dumps(steps),
                "pilotlight-clock": f"{offset_ns};1000",
            },
        )
        assert answer.status_code == 200

    def noted(self) -> dict[str, Any]:
        place = f"/v1/captures/file?id={self.id}&name=nodes.json"
        found: dict[str, Any] = self.client.get(place).json()
        return found


@pytest.fixture
def asked(tmp_path: Path) -> Iterator[Asked]:
    collector = Collector(parse_place(str(tmp_path / "store")))
    with TestClient(make_app(collector)) as client:
        yield Asked(client)
    collector.close()


def test_all_are_told_one_step_that_the_furthest_has_not_begun(asked: Asked) -> None:
    with ThreadPoolExecutor() as pool:
        first, second = pool.map(asked.propose, (0, 1), (SLOW, FAST))
    assert first == second and first[0] == 200
    # The fast one does 60 steps until the slow one is ready.
    assert first[1]["first_step"] >= 300 + 60
    assert first[1]["start_ns"] > time.time_ns()


def test_a_node_that_gives_up_is_not_waited_for(asked: Asked) -> None:
    place = f"/v1/detail?capture={asked.id}&agent={asked.agents[1]}&refused=no%20torch"
    assert asked.client.put(place).status_code == 200
    assert asked.propose(0, SLOW)[1]["first_step"] > 105


def test_the_manifest_says_whether_the_steps_are_equal_on_one_clock(asked: Asked) -> None:
    with ThreadPoolExecutor() as pool:
        list(pool.map(asked.propose, (0, 1), (SLOW, FAST)))
    asked.deliver(0, 7200 * 10**9, 400)
    asked.deliver(1, 3600 * 10**9, 400)
    noted = asked.noted()
    assert noted["same_steps"] is True
    assert noted["first_step"] >= 360
    assert [one["rank"] for one in noted["nodes"]["node0001"]["steps"]] == [2, 3]


def test_other_steps_on_one_node_are_told(asked: Asked) -> None:
    asked.deliver(0, 7200 * 10**9, 400)
    asked.deliver(1, 3600 * 10**9, 401)
    assert asked.noted()["same_steps"] is False


def test_what_is_no_proposal_is_refused(asked: Asked) -> None:
    for proposal in (
        {},
        [],
        {"steps": -1, "step_ns": 1, "needs_ns": 1},
        {"steps": 1, "step_ns": 0, "needs_ns": 1},
        {"steps": "1", "step_ns": 1, "needs_ns": 1},
        {"steps": 1, "step_ns": 1 << 80, "needs_ns": 1},
    ):
        status, answer = asked.propose(0, proposal)
        assert status == 400 and answer["error"], proposal


def test_who_was_not_asked_has_no_say(asked: Asked) -> None:
    stranger = f"/v1/agreement?capture={asked.id}&agent=stranger"
    assert asked.client.post(stranger, content=json.dumps(SLOW)).status_code == 404
    other = f"/v1/agreement?capture=0000&agent={asked.agents[0]}"
    assert asked.client.post(other, content=json.dumps(SLOW)).status_code == 404
    progress = f"/v1/progress?capture={asked.id}&agent=stranger"
    assert asked.client.post(progress, content=b"[]").status_code == 404


def test_headers_that_nobody_can_read_do_no_harm(asked: Asked) -> None:
    for number, (steps, clock) in enumerate((("[{", "²;³"), ('[{"rank": "x"}]', "-;-9"))):
        answer = asked.client.put(
            f"/v1/detail?capture={asked.id}&agent={asked.agents[number]}",
            content=b"archive",
            headers={"pilotlight-steps": steps, "pilotlight-clock": clock.encode("latin-1")},  # type: ignore[dict-item]
        )
        assert answer.status_code == 200
    assert asked.noted()["same_steps"] is None


def test_how_far_each_rank_is_can_be_looked_at_until_its_files_are_there_and_then(
    asked: Asked,
) -> None:
    def tell(number: int, *ranks: object) -> int:
        place = f"/v1/progress?capture={asked.id}&agent={asked.agents[number]}"
        return asked.client.post(place, content=json.dumps(ranks)).status_code

    def told() -> list[list[dict[str, Any]]]:
        answer = asked.client.get(f"/api/capture?id={asked.id}").json()
        return [node["told"] for node in answer["nodes"]]

    waiting = {"rank": 0, "state": "waiting for its poll", "why": ""}
    failed = {"rank": 1, "state": "failed", "why": "hung"}
    assert tell(0, waiting, failed, {"rank": 2, "state": "done", "why": ""}) == 200
    # Rank 2 is on the other node.
    assert told() == [[waiting, failed], []]
    assert [tell(0, "x"), tell(0, {"rank": -1, "state": "", "why": ""}), tell(0, {"rank": 0})] == [
        400,
        400,
        400,
    ]
    asked.deliver(0, 7200 * 10**9, 400)
    asked.deliver(1, 3600 * 10**9, 400)
    settled = until(lambda: found if (found := told())[0] else None)
    assert settled == [[waiting, failed], []]
