"""What happens to a device reaches the jobs that have it, and the others of its node in a word."""

from __future__ import annotations

import time
from typing import Any

import pytest

pytest.importorskip("chdb", reason="the collector needs pilotlight[server]")
from starlette.testclient import TestClient
from tests.collector.conftest import until

from pilotlight.collector.app import make_app
from pilotlight.collector.collector import Collector
from pilotlight.collector.config import Config, Watch
from pilotlight.collector.watch.nodes import device_errors, silent_nodes
from pilotlight.collector.watch.opened import Register
from pilotlight.collector.watch.recent import RecentJob, take_in
from pilotlight.ship.envelope import seal
from pilotlight.ship.wire import PROTOCOL
from pilotlight.store.batch import Batch, Clock, decode
from pilotlight.store.place import parse_place

SECOND = 1_000_000_000
KILL = {"time_ns": 5, "device": "cgroup jobs/b", "name": "oom_kill", "value": 1, "text": "1 killed"}
XID = {"time_ns": 5, "device": "gpu4", "name": "xid", "value": 79, "text": "off the bus"}


def body(
    gpus: dict[str, list[int]],
    events: list[dict[str, Any]],
    sequence: int = 1,
    state: str = "running",
    places: list[dict[str, Any]] | None = None,
) -> bytes:
    """Of one node; the jobs with the GPUs of their ranks."""
    header = {
        "protocol": list(PROTOCOL),
        "agent": "agent",
        "epoch": 1,
        "sequence": sequence,
        "node": "node",
        "made_ns": time.time_ns(),
        "places": places
        or [
            {"job": job, "rank": rank, "process": rank, "gpu": gpu}
            for job, numbers in gpus.items()
            for rank, gpu in enumerate(numbers)
        ],
        "jobs": [{"job": job, "state": state, "started_ns": 1} for job in gpus or ["job"]],
        "events": events,
    }
    return seal(header, {})


def batch(gpus: dict[str, list[int]], *events: dict[str, Any]) -> Batch:
    return decode("default", body(gpus, list(events)), Clock(), time.time_ns())


def causes(jobs: dict[tuple[str, str], RecentJob]) -> dict[str, list[tuple[str, int | None]]]:
    return {
        name: [(one.cause, one.rank) for one in device_errors(job)]
        for (_, name), job in jobs.items()
    }


def test_an_xid_is_of_the_jobs_that_have_the_gpu() -> None:
    jobs: dict[tuple[str, str], RecentJob] = {}
    both = {"first": [0, 1, 2, 3], "second": [4, 5, 6, 7]}
    take_in(jobs, batch(both, XID))
    assert causes(jobs) == {"first": [("node_event", None)], "second": [("xid", 0)]}


def test_an_event_that_comes_with_the_last_batch_of_another_job_still_arrives() -> None:
    jobs: dict[tuple[str, str], RecentJob] = {}
    take_in(jobs, batch({"first": [0, 1], "second": [4, 5]}))
    take_in(jobs, batch({"first": [0, 1]}, XID))
    assert causes(jobs) == {"first": [("node_event", None)], "second": [("xid", 0)]}


def test_a_job_whose_gpu_nobody_knows_may_have_it_where_no_other_has() -> None:
    jobs: dict[tuple[str, str], RecentJob] = {}
    take_in(jobs, batch({"ranks": [0, 1], "alone": [-1]}, XID))
    assert causes(jobs) == {"ranks": [("node_event", None)], "alone": [("xid", None)]}


def in_groups(**groups: str) -> list[dict[str, Any]]:
    return [
        {"job": job, "rank": 0, "process": number, "gpu": number, "group": group}
        for number, (job, group) in enumerate(groups.items())
    ]


@pytest.mark.parametrize(
    ("groups", "causes_of"),
    [
        ({"a": "cgroup jobs/a", "b": "cgroup jobs/b"}, ("node_event", "oom_kill")),
        ({"a": "cgroup jobs/b", "b": "cgroup jobs/b"}, ("oom_kill", "oom_kill")),
        ({"a": "", "b": ""}, ("oom_kill", "oom_kill")),
    ],
    ids=["one has it", "both have it", "nobody knows"],
)
def test_processes_killed_for_memory_are_of_the_jobs_in_their_group(
    groups: dict[str, str], causes_of: tuple[str, str]
) -> None:
    jobs: dict[tuple[str, str], RecentJob] = {}
    told = body({"a": [], "b": []}, [], places=in_groups(**groups))
    take_in(jobs, decode("default", told, Clock(), time.time_ns()))
    # What was killed is in no batch any more.
    told = body({"a": [], "b": []}, [KILL], 2, places=in_groups(a=groups["a"]))
    take_in(jobs, decode("default", told, Clock(), time.time_ns()))
    assert tuple(found[0][0] for found in causes(jobs).values()) == causes_of


def heard(jobs: dict[tuple[str, str], RecentJob], node: int, at_s: int, batch_s: float) -> None:
    header = {
        "protocol": list(PROTOCOL),
        "agent": f"agent{node}",
        "epoch": 1,
        "sequence": at_s + 1,
        "node": f"node{node}",
        "made_ns": at_s * SECOND,
        "places": [{"job": "job", "rank": node}],
        "jobs": [{"job": "job"}],
        "facts": {"batch_s": batch_s},
    }
    take_in(jobs, decode("default", seal(header, {}), Clock(), at_s * SECOND))


def silent_at(at_s: int, heard_s: dict[int, list[int]], batch_s: float = 5.0) -> list[str]:
    """The nodes that are silent then, by when each was heard."""
    jobs: dict[tuple[str, str], RecentJob] = {}
    for when_s, node in sorted((s, node) for node, times in heard_s.items() for s in times):
        if when_s <= at_s:
            heard(jobs, node, when_s, batch_s)
    (job,) = jobs.values()
    return [one.title for one in silent_nodes(job, at_s * SECOND)]


def test_the_first_to_come_back_after_a_cut_does_not_make_the_others_silent() -> None:
    every_5_s = list(range(1, 100, 5))
    times = {0: [*every_5_s, *range(300, 500, 5)], 1: [*every_5_s, *range(362, 500, 5)]}
    assert [silent_at(at_s, times) for at_s in (300, 330, 361, 400)] == [[], [], [], []]
    times[1] = every_5_s
    assert silent_at(380, times) == ["Nothing comes from node node1"]


def test_agents_that_send_rarely_are_not_silent_in_between() -> None:
    assert silent_at(420, {0: [1, 121, 241, 361], 1: [60, 180, 300]}, batch_s=120.0) == []
    assert silent_at(850, {0: list(range(1, 900, 120)), 1: [60, 180]}, batch_s=120.0)


def test_what_another_job_has_is_no_alarm_and_no_reason_for_a_capture() -> None:
    jobs: dict[tuple[str, str], RecentJob] = {}
    take_in(jobs, batch({"first": [0, 1], "second": [4, 5]}, XID))
    job = jobs["default", "first"]
    (opened,) = Register().update(job, device_errors(job), 10)
    assert (opened.severity, opened.ranks) == ("info", ())
    assert "no process of this job is on it" in opened.finding.evidence


def test_a_launcher_that_was_told_as_a_rank_is_none_once_its_ranks_are_there() -> None:
    """A node without rank 0: it would be taken for a rank of which nothing comes any more."""
    jobs: dict[tuple[str, str], RecentJob] = {}
    told: list[dict[str, Any]] = [{"job": "job", "rank": 0, "process": 0, "role": "main"}]
    take_in(jobs, decode("default", body({}, [], places=told), Clock(), time.time_ns()))
    assert list(jobs["default", "job"].ranks) == [0]
    told = [{"job": "job", "rank": -1, "process": 0, "role": "launcher"}]
    told += [{"job": "job", "rank": rank, "process": rank} for rank in (2, 3)]
    take_in(jobs, decode("default", body({}, [], 2, places=told), Clock(), time.time_ns()))
    assert list(jobs["default", "job"].ranks) == [2, 3]


def test_a_job_that_dies_of_an_xid_within_one_batch_has_the_finding(tmp_path: Any) -> None:
    config = Config(watch=Watch(every_s=0.2))
    collector = Collector(parse_place(str(tmp_path / "store")), config)
    try:
        with TestClient(make_app(collector)) as client:
            client.post("/v1/batches", content=body({"job": [4]}, []))
            time.sleep(1)
            client.post("/v1/batches", content=body({"job": [4]}, [XID], 2, "failed"))
            (found,) = until(lambda: client.get("/v1/findings?state=closed").json()["data"])
            assert (found["cause"], found["severity"]) == ("xid", "critical")
    finally:
        collector.close()
