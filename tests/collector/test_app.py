"""The collector over HTTP, in one process."""

from __future__ import annotations

import shutil
import subprocess
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip("chdb", reason="the collector needs pilotlight[server]")
from starlette.testclient import TestClient
from tests.collector.conftest import until

from pilotlight.collector.app import make_app
from pilotlight.collector.collector import Collector
from pilotlight.collector.config import Config, Watch
from pilotlight.ship.envelope import seal
from pilotlight.simulate.fleet import WINDOW_NS, FleetJob, SimulatedAgent
from pilotlight.store.place import parse_place


@pytest.fixture
def collector(tmp_path: Path) -> Iterator[Collector]:
    config = Config(watch=Watch(price_per_gpu_hour=2.5, currency="EUR"))
    made = Collector(parse_place(str(tmp_path / "store")), config)
    yield made
    made.close()


@pytest.fixture
def client(collector: Collector) -> Iterator[TestClient]:
    with TestClient(make_app(collector)) as client:
        yield client


def body() -> bytes:
    now_ns = time.time_ns() // WINDOW_NS * WINDOW_NS
    agent = SimulatedAgent(FleetJob("nightly", ranks_per_node=2), 0, now_ns)
    return agent.batch(now_ns - WINDOW_NS, now_ns)


def test_a_batch_becomes_a_job(client: TestClient, collector: Collector) -> None:
    answer = client.post("/v1/batches", content=body())
    assert answer.status_code == 200 and answer.json()["new"] is True
    assert collector.writer.flush(30)
    (job,) = client.get("/v1/jobs").json()["data"]
    assert (job["job"], job["ranks"], job["steps"]) == ("nightly", 2, 10)
    detail = client.get("/v1/job?job=nightly").json()["data"]
    assert (detail["price_per_gpu_hour"], detail["currency"]) == (2.5, "EUR")


@pytest.mark.parametrize(
    ("ago_s", "state", "heard"), [(230, "running", "up"), (900, "lost", "silent")]
)
def test_a_job_whose_agent_sends_seldom_is_not_lost_in_between(
    client: TestClient,
    collector: Collector,
    monkeypatch: pytest.MonkeyPatch,
    ago_s: int,
    state: str,
    heard: str,
) -> None:
    then_ns = time.time_ns() - ago_s * 10**9
    job = {"job": "seldom", "state": "running", "started_ns": then_ns}
    place = {"job": "seldom", "rank": 0, "started_ns": then_ns}
    header = {"protocol": [1, 0], "agent": "a", "epoch": 1, "sequence": 1, "node": "n"}
    header |= {"made_ns": then_ns, "places": [place], "jobs": [job], "facts": {"batch_s": 240.0}}
    with monkeypatch.context() as patched:
        patched.setattr("time.time_ns", lambda: then_ns)
        assert client.post("/v1/batches", content=seal(header, {})).status_code == 200
    assert collector.writer.flush(30)
    until(lambda: collector.watcher.agents())
    (row,) = client.get("/v1/jobs?since=1h").json()["data"]
    (agent,) = client.get("/v1/agents").json()["data"]
    assert (row["state"], agent["state"]) == (state, heard)


def test_a_job_whose_batches_wait_for_the_tables_is_not_lost(
    client: TestClient, collector: Collector, monkeypatch: pytest.MonkeyPatch
) -> None:
    now_ns = time.time_ns()
    job = {"job": "waiting", "state": "running", "started_ns": now_ns - 200 * 10**9}
    place = {"job": "waiting", "rank": 0, "started_ns": job["started_ns"]}

    def send(sequence: int, then_ns: int) -> None:
        header = {"protocol": [1, 0], "agent": "a", "epoch": 1, "sequence": sequence, "node": "n"}
        header |= {"made_ns": then_ns, "places": [place], "jobs": [job]}
        with monkeypatch.context() as patched:
            patched.setattr("time.time_ns", lambda: then_ns)
            assert client.post("/v1/batches", content=seal(header, {})).status_code == 200

    def state() -> str:
        (row,) = client.get("/v1/jobs?since=1h").json()["data"]
        return str(row["state"])

    send(1, now_ns - 120 * 10**9)
    assert collector.writer.flush(30) and state() == "lost"
    insert, may_go_on = collector.store.insert, threading.Event()
    monkeypatch.setattr(
        collector.store, "insert", lambda *rows: (may_go_on.wait(30), insert(*rows))
    )
    send(2, now_ns - 100 * 10**9)
    until(lambda: collector.writer.behind_ns(now_ns) >= 100 * 10**9)
    assert state() == "running"
    may_go_on.set()
    assert collector.writer.flush(30) and collector.writer.behind_ns(now_ns) == 0
    assert state() == "lost"


def test_the_same_batch_again_is_taken_once(client: TestClient, collector: Collector) -> None:
    data = body()
    assert client.post("/v1/batches", content=data).json()["new"] is True
    assert client.post("/v1/batches", content=data).json()["new"] is False
    assert collector.writer.flush(30)
    assert collector.store.select("SELECT count() FROM steps") == [(20,)]


def test_health_is_told_without_a_token(client: TestClient) -> None:
    assert client.get("/healthz").json() == {"ok": True}
    assert client.get("/readyz").status_code == 200


def test_a_wrong_question_names_what_is_wrong(client: TestClient) -> None:
    assert client.get("/v1/job").json() == {"error": "?job= is missing"}
    assert client.get("/v1/job?job=x").status_code == 404
    assert "not a length of time" in client.get("/v1/jobs?since=abc").json()["error"]


@pytest.mark.skipif(not shutil.which("promtool"), reason="needs promtool (Debian: prometheus)")
def test_prometheus_finds_nothing_wrong_with_the_metrics(
    client: TestClient, collector: Collector
) -> None:
    client.post("/v1/batches", content=body())
    assert collector.writer.flush(30)
    metrics = client.get("/metrics")
    assert b'"nightly"' in metrics.content
    checked = subprocess.run(
        ["promtool", "check", "metrics"], input=metrics.content, capture_output=True, timeout=60
    )
    assert (checked.returncode, checked.stderr + checked.stdout) == (0, b"")


def test_what_recording_costs_and_loses_is_measured_of_each_agent(
    client: TestClient, collector: Collector
) -> None:
    client.post("/v1/batches", content=body())
    until(lambda: collector.watcher.agents())
    found = dict(line.rsplit(" ", 1) for line in client.get("/metrics").text.splitlines())
    (agent,) = collector.watcher.agents()
    label = f'{{node="{agent.node}",agent="{agent.agent}"}}'
    assert float(found[f"pilotlight_agent_resident_bytes{label}"]) == agent.facts.rss_bytes > 0
    heard_s = float(found[f"pilotlight_agent_last_batch_timestamp_seconds{label}"])
    assert abs(heard_s - agent.heard_ns / 1e9) < 0.001
