"""Findings that open and close, and the captures that they ask for."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from contextlib import closing
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from threading import Thread
from typing import Any, ClassVar

import pytest

pytest.importorskip("chdb", reason="the collector needs pilotlight[server]")
from starlette.testclient import TestClient
from tests.collector.conftest import until

from pilotlight.collector.app import make_app
from pilotlight.collector.collector import Collector
from pilotlight.collector.config import Alerts, Captures, Config, Watch
from pilotlight.collector.watch.recent import RecentJob
from pilotlight.errors import StoreError
from pilotlight.simulate.fleet import WINDOW_NS, FleetFault, FleetJob, SimulatedAgent, agents_of
from pilotlight.store.place import parse_place

CONFIG = Config(watch=Watch(every_s=0.3), captures=Captures(per_job_s=0.1, per_node_s=0.1))


class Told(BaseHTTPRequestHandler):
    """Somebody's webhook."""

    bodies: ClassVar[list[Any]] = []

    def do_POST(self) -> None:
        length = int(self.headers["content-length"])
        Told.bodies.append((self.path, json.loads(self.rfile.read(length))))
        self.send_response(200)
        self.end_headers()

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def webhook() -> Iterator[str]:
    Told.bodies = []
    server = HTTPServer(("127.0.0.1", 0), Told)
    Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_address[1]}"
    server.shutdown()
    server.server_close()


@pytest.fixture
def started(
    tmp_path: Path, request: pytest.FixtureRequest
) -> Iterator[tuple[Collector, TestClient]]:
    collector = Collector(parse_place(str(tmp_path / "store")), CONFIG)
    with closing(collector), TestClient(make_app(collector)) as client:
        yield collector, client


def play(
    client: TestClient, kind: str, windows: int = 14, since: float = 3, factor: float = 1.3
) -> list[SimulatedAgent]:
    """A job of eight ranks; rank 5 is at fault in the last windows."""
    now_ns = time.time_ns() // WINDOW_NS * WINDOW_NS
    fault = FleetFault(kind, 5, now_ns - int(since * WINDOW_NS), factor=factor)
    job = FleetJob("job", 2, 4, step_ns=500_000_000, faults=[fault] if kind else [])
    agents = agents_of(job, now_ns)
    for number in range(windows):
        begin_ns = now_ns - (windows - number) * WINDOW_NS
        for agent in agents:
            body = agent.batch(begin_ns, begin_ns + WINDOW_NS)
            assert client.post("/v1/batches", content=body).status_code == 200
    return agents


def findings(client: TestClient, state: str = "open") -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = client.get(f"/v1/findings?state={state}").json()["data"]
    return found


@pytest.mark.parametrize(
    ("kind", "cause", "ranks"),
    [
        ("straggler", "slow_gpu", [5]),
        ("throttle", "throttle", [5]),
        ("loader", "loader", [5]),
    ],
)
def test_a_rank_at_fault_is_found_with_its_cause(
    started: tuple[Collector, TestClient], kind: str, cause: str, ranks: list[int]
) -> None:
    _, client = started
    play(client, kind)
    (found,) = until(lambda: findings(client))
    assert (found["cause"], found["ranks"], found["nodes"]) == (cause, ranks, ["node0001"])
    assert found["evidence"] and found["fix"]


def test_what_is_known_better_is_said_at_once(started: tuple[Collector, TestClient]) -> None:
    _, client = started
    agents = play(client, "loader", since=0.25, factor=1.9)
    (found,) = until(lambda: findings(client))
    assert found["title"] == "The job waits for its data loader"
    now_ns = time.time_ns() // WINDOW_NS * WINDOW_NS
    for agent in agents:
        client.post("/v1/batches", content=agent.batch(now_ns, now_ns + WINDOW_NS))
    until(lambda: "Rank 5 holds up all others" in [one["title"] for one in findings(client)])
    assert "The job waits for its data loader" not in [one["title"] for one in findings(client)]


def test_a_hang_is_critical_and_says_who_is_missing_from_which_collective(
    started: tuple[Collector, TestClient],
) -> None:
    _, client = started
    play(client, "hang", since=5)
    (found,) = until(lambda: [one for one in findings(client) if one["ranks"] == [5]])
    assert (found["cause"], found["severity"]) == ("hang", "critical")
    assert any("not entered: all_reduce, collective" in line for line in found["evidence"])


def test_a_healthy_job_has_no_finding(started: tuple[Collector, TestClient]) -> None:
    collector, client = started
    play(client, "")
    until(lambda: collector.watcher.looked_ns)
    time.sleep(1)
    assert findings(client) == [] and collector.desk.counts["requested"] == 0


def test_the_backlog_of_an_agent_that_was_away_is_no_hang(
    started: tuple[Collector, TestClient],
) -> None:
    _, client = started
    now_ns = time.time_ns() - 600 * 10**9
    agent = SimulatedAgent(FleetJob("job", 1, 2), 0, now_ns)
    client.post("/v1/batches", content=agent.batch(now_ns - WINDOW_NS, now_ns))
    time.sleep(1.5)
    assert findings(client) == []


def test_a_finding_closes_when_the_job_ends(started: tuple[Collector, TestClient]) -> None:
    _, client = started
    agents = play(client, "throttle")
    until(lambda: findings(client))
    now_ns = time.time_ns()
    for agent in agents:
        client.post("/v1/batches", content=agent.batch(now_ns, now_ns, state="finished"))
    (found,) = until(lambda: findings(client, "closed"))
    assert found["closed_ns"] >= found["opened_ns"] and findings(client) == []


def test_a_finding_that_closes_while_the_store_is_away_is_closed_when_it_is_back(
    started: tuple[Collector, TestClient], monkeypatch: pytest.MonkeyPatch
) -> None:
    collector, client = started
    agents = play(client, "throttle")
    until(lambda: findings(client))

    def is_away(*_: object) -> None:
        raise StoreError("no ClickHouse server")

    with monkeypatch.context() as away:
        away.setattr(collector.store, "insert_rows", is_away)
        now_ns = time.time_ns()
        for agent in agents:
            client.post("/v1/batches", content=agent.batch(now_ns, now_ns, state="finished"))
        until(lambda: collector.watcher.counts["closed"])
        until(lambda: collector.watcher.counts["findings not written"])
        assert findings(client)
    until(lambda: not findings(client))
    assert findings(client, "closed")


def test_a_finding_brings_detail_of_its_rank_and_of_healthy_ones(
    started: tuple[Collector, TestClient],
) -> None:
    collector, client = started
    agents = play(client, "throttle")
    until(lambda: collector.desk.counts["requested"])
    asked: dict[str, list[int]] = {}
    for agent in agents:
        answer = client.get(f"/v1/requests?agent={agent.name}&wait=0").json()
        for one in answer["requests"]:
            asked[agent.name] = one["ranks"]
            sent = client.put(
                f"/v1/detail?capture={one['capture']}&agent={agent.name}", content=b"archive"
            )
            assert sent.status_code == 200
    ranks = sorted(rank for chosen in asked.values() for rank in chosen)
    assert 5 in ranks and len(ranks) == 3
    (capture,) = until(
        lambda: [
            one for one in client.get("/v1/captures").json()["data"] if one["state"] == "stored"
        ]
    )
    assert capture["ranks"] == ranks and capture["files"] == len(asked)
    (found,) = until(lambda: [one for one in findings(client) if one["capture"]])
    assert found["capture"] == capture["id"]
    files = client.get(f"/v1/captures/files?id={capture['id']}").json()["data"]
    archive = next(one["name"] for one in files if one["name"].endswith(".tar.zst"))
    got = client.get(f"/v1/captures/file?id={capture['id']}&name={archive}")
    assert got.content == b"archive"


def test_a_person_asks_for_a_capture_and_it_is_on_record(
    started: tuple[Collector, TestClient],
) -> None:
    collector, client = started
    agents = play(client, "", windows=3)
    until(lambda: collector.watcher.jobs())
    question = {"job": "job", "ranks": [0, 1], "steps": 2, "detail": ["shapes"]}
    assert client.post("/v1/captures", json={**question, "detail": ["files"]}).status_code == 400
    asked = client.post("/v1/captures", json=question)
    assert asked.status_code == 200 and asked.json()["data"]["ranks"] == [0, 1]
    again = client.post("/v1/captures", json={"job": "job"})
    assert again.status_code == 429 and "captured" in again.json()["error"]
    assert client.post("/v1/captures", json={"job": "other"}).status_code == 404
    ((who, action),) = collector.store.select("SELECT who, action FROM audit")
    assert (who, action) == ("this machine", "capture")
    (request,) = client.get(f"/v1/requests?agent={agents[0].name}&wait=0").json()["requests"]
    assert (request["steps"], request["detail"]) == (2, ["shapes"])
    refused = client.put(
        f"/v1/detail?capture={asked.json()['data']['id']}&agent={agents[0].name}&refused=no%20job"
    )
    assert refused.status_code == 200
    (capture,) = client.get("/v1/captures").json()["data"]
    assert (capture["state"], capture["problem"]) == ("failed", "node0000: no job")


def test_detail_that_nobody_asked_for_is_not_taken(started: tuple[Collector, TestClient]) -> None:
    _, client = started
    sent = client.put("/v1/detail?capture=../../etc&agent=x", content=b"x")
    assert sent.status_code == 404
    assert client.get("/v1/captures/file?id=../..&name=passwd").status_code == 404


def test_what_expired_is_removed(started: tuple[Collector, TestClient]) -> None:
    collector, client = started
    agents = play(client, "", windows=3)
    until(lambda: collector.watcher.jobs())
    id = client.post("/v1/captures", json={"job": "job", "ranks": [0]}).json()["data"]["id"]
    client.put(f"/v1/detail?capture={id}&agent={agents[0].name}", content=b"x")
    assert collector.desk.shelf.files(id)
    assert collector.desk.expire(time.time_ns() + 10**18) == 1
    assert collector.desk.shelf.files(id) == []
    assert client.get("/v1/captures").json()["data"][0]["state"] == "expired"


def test_what_nobody_wants_any_more_is_removed(started: tuple[Collector, TestClient]) -> None:
    collector, client = started
    agents = play(client, "", windows=3)
    until(lambda: collector.watcher.jobs())
    id = client.post("/v1/captures", json={"job": "job", "ranks": [0]}).json()["data"]["id"]
    early = client.post("/v1/captures/expire", json={"id": id})
    assert early.status_code == 400 and "still on its way" in early.json()["error"]
    client.put(f"/v1/detail?capture={id}&agent={agents[0].name}", content=b"x")
    assert client.post("/v1/captures/expire", json={"id": id}).status_code == 200
    assert collector.desk.shelf.files(id) == []
    assert client.get("/v1/captures").json()["data"][0]["state"] == "expired"
    assert client.post("/v1/captures/expire", json={"id": "../.."}).status_code == 404
    assert client.post("/v1/captures/expire", content=b"[").status_code == 400
    actions = [row[0] for row in collector.store.select("SELECT action FROM audit")]
    assert sorted(actions) == ["capture", "discard capture"]


def _of_rank_5() -> list[tuple[str, Any]]:
    return [(path, body) for path, body in list(Told.bodies) if "rank 5" in json.dumps(body)]


def test_findings_are_announced_once_in_each_shape(webhook: str, tmp_path: Path) -> None:
    seen = tmp_path / "command.jsonl"
    alerts = Alerts(
        webhook=f"{webhook}/hook",
        slack=f"{webhook}/slack",
        alertmanager=webhook,
        command=["sh", "-c", f"(cat; echo) >> {seen}"],
    )
    config = Config(alerts=alerts, watch=Watch(every_s=0.3))
    collector = Collector(parse_place(str(tmp_path / "store")), config)
    with closing(collector), TestClient(make_app(collector)) as client:
        play(client, "throttle")
        until(lambda: len(_of_rank_5()) >= 3 and seen.exists() and '"throttle"' in seen.read_text())
        time.sleep(1)
    # A look at half of the steps may have found something else besides.
    told = _of_rank_5()
    assert sorted(path for path, _ in told) == ["/api/v2/alerts", "/hook", "/slack"]
    bodies = dict(told)
    assert bodies["/hook"]["cause"] == "throttle"
    assert "*job*: The device of rank 5" in bodies["/slack"]["text"]
    (alert,) = bodies["/api/v2/alerts"]
    assert alert["labels"]["alertname"] == "pilotlight_throttle"
    by_command = [json.loads(line)["cause"] for line in seen.read_text().splitlines()]
    assert by_command.count("throttle") == 1


def test_open_findings_survive_a_restart_of_the_collector(tmp_path: Path) -> None:
    place = parse_place(str(tmp_path / "store"))
    with closing(Collector(place, CONFIG)) as collector, TestClient(make_app(collector)) as client:
        play(client, "throttle")
        until(lambda: findings(client))
    # On a busy machine there may be more than the one: that nodes have become silent.
    before = {one.id for one in collector.watcher.open_findings()}
    again = Collector(place, CONFIG)
    after = {one.id for one in again.watcher.open_findings()}
    again.close()
    assert before and after == before


def test_a_capture_that_a_stopped_collector_waited_for_is_given_up_by_the_next(
    tmp_path: Path,
) -> None:
    place = parse_place(str(tmp_path / "store"))
    with closing(Collector(place, CONFIG)) as collector, TestClient(make_app(collector)) as client:
        agents = play(client, "", windows=3)
        until(lambda: len(collector.watcher.agents()) == len(agents))
        asked = client.post("/v1/captures", json={"job": "job"}).json()["data"]["id"]
        client.put(f"/v1/detail?capture={asked}&agent={agents[0].name}", content=b"archive")
        (before,) = client.get("/v1/captures").json()["data"]
        assert before["state"] == "requested"
    with closing(Collector(place, CONFIG)) as again, TestClient(make_app(again)) as client:
        (after,) = client.get("/v1/captures").json()["data"]
        assert (after["state"], after["files"]) == ("partial", 1)
        assert "stopped before" in after["problem"]
        late = client.put(f"/v1/detail?capture={asked}&agent={agents[1].name}", content=b"x")
        assert late.status_code == 404


def test_a_job_whose_diagnosis_fails_does_not_hide_the_others(
    started: tuple[Collector, TestClient], monkeypatch: pytest.MonkeyPatch
) -> None:
    collector, client = started
    diagnose = collector.watcher._diagnose

    def fails_for_one(job: RecentJob, now_ns: int) -> object:
        if job.job == "a-job":
            raise ArithmeticError("planted")
        return diagnose(job, now_ns)

    monkeypatch.setattr(collector.watcher, "_diagnose", fails_for_one)
    now_ns = time.time_ns() // WINDOW_NS * WINDOW_NS
    for agent in agents_of(FleetJob("a-job", 1, 2), now_ns):
        client.post("/v1/batches", content=agent.batch(now_ns - WINDOW_NS, now_ns))
    play(client, "throttle")
    (found,) = until(lambda: findings(client))
    assert found["job"] == "job" and collector.watcher.counts["fault: ArithmeticError('planted')"]
