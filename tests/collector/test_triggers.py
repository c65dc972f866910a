"""What makes the collector capture by itself, and what holds it back."""

from __future__ import annotations

import time
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("chdb", reason="the collector needs pilotlight[server]")
from starlette.testclient import TestClient
from tests.collector.conftest import until

from pilotlight.collector.app import make_app
from pilotlight.collector.captures import CaptureDesk
from pilotlight.collector.collector import Collector
from pilotlight.collector.config import Captures, Config, Watch
from pilotlight.collector.watch.nodes import device_errors, silent_nodes
from pilotlight.collector.watch.rank import RecentRank
from pilotlight.collector.watch.recent import NodeEvent, RecentJob
from pilotlight.errors import UsageError
from pilotlight.simulate.fleet import WINDOW_NS, FleetFault, FleetJob, agents_of
from pilotlight.store.batch import DeviceEvent
from pilotlight.store.place import parse_place
from pilotlight.store.store import Store

STEP_NS = 500_000_000
SECOND = 1_000_000_000
LIMITS = Captures(per_job_s=0.01, per_node_s=0.01, most_at_once=100)
CONFIG = Config(watch=Watch(every_s=0.2), captures=LIMITS)


def play(client: TestClient, job: FleetJob, now_ns: int, windows: int) -> None:
    agents = agents_of(job, now_ns)
    for number in range(windows, 0, -1):
        begin_ns = now_ns - number * WINDOW_NS
        for agent in agents:
            body = agent.batch(begin_ns, begin_ns + WINDOW_NS)
            assert client.post("/v1/batches", content=body).status_code == 200


def captured(client: TestClient, job: str, reason: str) -> dict[str, Any]:
    def found() -> list[dict[str, Any]]:
        all_of_them = client.get("/v1/captures").json()["data"]
        return [one for one in all_of_them if (one["job"], one["reason"]) == (job, reason)]

    captures: list[dict[str, Any]] = until(found, 60)
    return captures[0]


def test_each_fault_brings_a_capture_of_its_rank_and_of_healthy_ones(tmp_path: Path) -> None:
    now_ns = time.time_ns() // WINDOW_NS * WINDOW_NS
    collector = Collector(parse_place(str(tmp_path / "store")), CONFIG)
    with closing(collector), TestClient(make_app(collector)) as client:
        for kind, since_ns, factor, reason in (
            ("xid", 5 * SECOND, 1.0, "xid"),
            ("hang", 50 * SECOND, 1.0, "hang"),
            ("straggler", 40 * SECOND, 1.3, "slow_gpu"),
            ("loader", 2 * STEP_NS, 2.5, "slow step"),
        ):
            fault = FleetFault(kind, 5, now_ns - since_ns, factor=factor)
            job = FleetJob(f"{kind}-job", 2, 4, step_ns=STEP_NS, faults=[fault])
            play(client, job, now_ns, 10)
            capture = captured(client, job.name, reason)
            assert capture["asked_by"] == "trigger", kind
            assert len(capture["ranks"]) >= 3, kind
            # One step that is long is long for all: everybody waits for the slowest.
            assert 5 in capture["ranks"] or reason == "slow step", kind


def test_a_run_that_is_slower_than_the_one_before_it_is_captured(tmp_path: Path) -> None:
    place = parse_place(str(tmp_path / "store"))
    now_ns = time.time_ns() // WINDOW_NS * WINDOW_NS
    before = Collector(place, Config(watch=Watch(on=False)))
    with TestClient(make_app(before)) as client:
        play(client, FleetJob("old", 1, 4, step_ns=STEP_NS), now_ns - 30 * WINDOW_NS, 6)
        play(client, FleetJob("new", 1, 4, step_ns=2 * STEP_NS), now_ns - 2 * WINDOW_NS, 8)
        assert before.writer.flush(60)
    before.close()
    after = Collector(place, CONFIG)
    with closing(after), TestClient(make_app(after)) as client:
        new = FleetJob("new", 1, 4, step_ns=2 * STEP_NS)
        play(client, new, now_ns - WINDOW_NS, 1)
        told_ns = time.time_ns()
        until(lambda: after.watcher.looked_ns > told_ns)
        # Once may be chance: the next batch says so again.
        play(client, new, now_ns, 1)
        captured(client, "new", "regression")
        # The capture is asked for before the finding is written.
        until(
            lambda: [
                one
                for one in client.get("/v1/findings?state=open").json()["data"]
                if one["cause"].startswith("regression")
            ],
            60,
        )


def test_captures_are_limited_by_job_by_node_at_once_and_in_bytes(tmp_path: Path) -> None:
    agents = {"a1": ("node1", (0,)), "a2": ("node2", (1,))}
    with Store(parse_place(str(tmp_path / "store"))) as store:

        def desk(**settings: Any) -> CaptureDesk:
            return CaptureDesk(store, Captures(**settings), lambda tenant, agent: None)

        slow = desk(per_job_s=600, per_node_s=600)
        slow.ask("t", "job", 0, agents, 20, "hang", "trigger")
        with pytest.raises(UsageError, match="job job was captured"):
            slow.ask("t", "job", 0, agents, 20, "hang", "trigger")
        with pytest.raises(UsageError, match="node node2 was captured 0 s ago; try again in 600 s"):
            slow.ask("t", "other", 0, {"a2": agents["a2"]}, 20, "hang", "trigger")
        assert slow.counts["refused: job rate"] == slow.counts["refused: node rate"] == 1
        by_kind = desk(per_job_s=600, per_node_s=600, most_at_once=9)
        for rate in ("slow step", "finding", "rank", "critical"):
            by_kind.ask("t", "job", 0, agents, 20, rate, "trigger", rate=rate)
        with pytest.raises(UsageError, match="job job was captured"):
            by_kind.ask("t", "job", 0, agents, 20, "slow step", "trigger", rate="slow step")
        few = desk(most_at_once=1)
        few.ask("t", "job", 0, agents, 20, "user", "ann")
        with pytest.raises(UsageError, match="under way"):
            few.ask("t", "other", 0, agents, 20, "user", "ann")
        small = desk(budget_bytes=2 << 20)
        id = small.ask("t", "job", 0, agents, 20, "user", "ann").id
        path, limit_bytes = small.place_for("t", id, "a1")
        assert limit_bytes == 2 << 20
        path.write_bytes(bytes(2 << 20))
        small.delivered(id, "a1", 2 << 20, {})
        with pytest.raises(UsageError, match="disk budget"):
            small.place_for("t", id, "a2")
        assert small.counts["partial"] == small.counts["refused: budget"] == 1
        rows = store.select(
            "SELECT state, problem FROM captures FINAL WHERE id = {i:String}", {"i": id}
        )
        assert rows == [
            ("partial", "node2: the captures that are kept have used up their disk budget")
        ]


def test_a_finding_that_had_to_wait_for_its_capture_gets_it_later(tmp_path: Path) -> None:
    now_ns = time.time_ns() // WINDOW_NS * WINDOW_NS
    limits = Captures(per_job_s=0.01, per_node_s=0.01, most_at_once=1)
    collector = Collector(
        parse_place(str(tmp_path / "store")), Config(watch=Watch(every_s=0.2), captures=limits)
    )
    with TestClient(make_app(collector)) as client:
        fault = FleetFault("hang", 2, now_ns - 50 * SECOND)
        healthy = FleetJob("healthy", 1, 4, step_ns=STEP_NS)
        play(client, healthy, now_ns, 1)
        until(lambda: collector.watcher.jobs())
        first = client.post("/v1/captures", json={"job": "healthy"}).json()["data"]["id"]
        play(client, FleetJob("hangs", 1, 4, step_ns=STEP_NS, faults=[fault]), now_ns, 14)
        until(lambda: collector.watcher.counts["triggers held back"], 60)
        (agent,) = agents_of(healthy, now_ns)
        client.put(f"/v1/detail?capture={first}&agent={agent.name}&refused=no")
        assert captured(client, "hangs", "hang")["finding"]
    collector.close()


def test_a_finding_shares_the_capture_that_has_its_rank_and_its_seconds(tmp_path: Path) -> None:
    now_ns = time.time_ns() // WINDOW_NS * WINDOW_NS
    fault = FleetFault("straggler", 5, now_ns - 2 * WINDOW_NS, factor=1.3)
    job = FleetJob("job", 2, 4, step_ns=STEP_NS, faults=[fault])
    config = Config(watch=Watch(every_s=0.2))
    collector = Collector(parse_place(str(tmp_path / "store")), config)
    with TestClient(make_app(collector)) as client:
        play(client, job, now_ns - 2 * WINDOW_NS, 8)
        until(lambda: collector.watcher.jobs())
        asked = client.post("/v1/captures", json={"job": "job"}).json()["data"]["id"]
        play(client, job, now_ns, 2)
        until(lambda: [one for one in _open(client) if one["cause"] == "slow_gpu"], 60)
        for agent in agents_of(job, now_ns):
            client.put(f"/v1/detail?capture={asked}&agent={agent.name}", content=b"detail")
        until(lambda: [one for one in _open(client) if one["capture"] == asked], 60)
        reasons = [one["reason"] for one in client.get("/v1/captures").json()["data"]]
        assert "slow_gpu" not in reasons
    collector.close()


def _open(client: TestClient) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = client.get("/v1/findings?state=open").json()["data"]
    return found


def two_nodes(heard_ns: tuple[int, int]) -> RecentJob:
    ranks = {
        rank: RecentRank(f"node{rank}", "a", heard_ns=heard_ns[rank], gpu=0) for rank in (0, 1)
    }
    return RecentJob("t", "job", ranks=ranks)


def test_a_node_of_which_nothing_comes_is_named_unless_all_are_silent() -> None:
    (found,) = silent_nodes(two_nodes((100 * SECOND, 40 * SECOND)), 101 * SECOND)
    assert (found.cause, found.rank) == ("silent", 1) and "node1" in found.title
    assert silent_nodes(two_nodes((100 * SECOND, 99 * SECOND)), 900 * SECOND) == []


def test_only_errors_of_devices_are_findings_and_each_is_called_what_it_is() -> None:
    job = two_nodes((1, 1))
    happened = [
        ("node1", DeviceEvent(1, "gpu0", "xid", 79, "GPU has fallen off the bus")),
        ("node0", DeviceEvent(1, "gpu0", "back", 0, "the GPU answers again")),
        ("node0", DeviceEvent(1, "mlx5_0", "link", 4, "the port went from 1 to 4")),
        ("node0", DeviceEvent(1, "gpu0", "lost", 0, "the GPU does not answer")),
    ]
    job.events = [NodeEvent(node, event, is_own=True) for node, event in happened]
    found = device_errors(job)
    assert [(one.cause, one.rank) for one in found] == [("xid", 1), ("lost", 0)]
    assert found[0].evidence == ("XID 79: GPU has fallen off the bus",)
    assert "XID" not in found[1].title and device_errors(job) == []
