from __future__ import annotations

import io
import re
import time
from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest

pytest.importorskip("chdb", reason="the collector needs pilotlight[server]")
import fleet
from fleet import EVIL_JOB, LATE_RANK, LLAMA
from starlette.testclient import TestClient

from pilotlight.collector.app import make_app
from pilotlight.collector.collector import Collector
from pilotlight.simulate.fleet import WINDOW_NS, FleetFault, FleetJob, agents_of
from pilotlight.store import queries
from pilotlight.store.batch import Clock, decode
from pilotlight.store.queries import Reader
from pilotlight.web.jobs import Pace, headline
from pilotlight.web.questions import QUESTIONS


@pytest.fixture(scope="module")
def collector(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Collector]:
    with fleet.filled_collector(tmp_path_factory.mktemp("fleet")) as made:
        fleet.send_evil(made)
        yield made


@pytest.fixture
def client(collector: Collector) -> Iterator[TestClient]:
    with TestClient(make_app(collector), base_url="http://localhost") as made:
        yield made


def test_the_fleet_says_what_is_lost_to_what(client: TestClient) -> None:
    answer = client.get("/api/fleet").json()
    assert "3 of 3 jobs running" in answer["headline"]
    assert "GPU-minutes lost" in answer["headline"]
    jobs = {job["job"]: job for job in answer["jobs"]}
    assert set(jobs) == {LLAMA, "vit-pretrain", EVIL_JOB}
    llama = jobs[LLAMA]
    assert llama["worst_finding"].startswith(f"Rank {LATE_RANK}")
    assert llama["ranks"] == 8
    assert 0 < llama["lost_hours"] < llama["gpu_hours"] and llama["has_gpus"]
    assert sum(llama["parts_ns"].values()) > 0
    gpus = [gpu for node in answer["nodes"] for gpu in node["gpus"]]
    assert len(gpus) == 11 and all(gpu["temperature_c"] > 0 for gpu in gpus)


def test_mfu_is_what_the_program_says(client: TestClient, collector: Collector) -> None:
    row = {"tenant": "default", "job": LLAMA, "attempt": 0, "node": "node0000", "rank": 0}
    row |= {"gpu": -1, "time_ns": time.time_ns(), "name": "mfu", "count": 2, "sum": 82.0}
    collector.store.insert_rows("counters", [{**row, "min": 40.0, "max": 42.0, "last": 42.0}])
    answer = client.get("/api/fleet?since=6h").json()
    found = {job["job"]: job["mfu_ratio"] for job in answer["jobs"]}
    assert found[LLAMA] == pytest.approx(0.41)
    assert found["vit-pretrain"] is None


def test_a_job_in_one_sentence(client: TestClient) -> None:
    answer = client.get("/api/job", params={"job": LLAMA}).json()
    assert re.search(
        rf"; rank {LATE_RANK} is late in \d+ % of steps: .* more of its own a step",
        answer["headline"],
    ), answer["headline"]
    assert [event["kind"] for event in answer["events"]][:2] == ["start", "finding"]
    assert answer["last_step"] - answer["first_step"] == 2 * 10 * fleet.WINDOWS - 1


def test_the_late_rank_stands_out_of_the_map(client: TestClient) -> None:
    cells = cells_of(client, "lateness").reshape(8, 48)
    assert not np.isnan(cells).any()
    late = cells[:, 30:].mean(axis=1)
    assert int(late.argmax()) == LATE_RANK
    assert late[LATE_RANK] > 10 * np.delete(late, LATE_RANK).max()
    assert cells[:, :18].mean() < 0.1 * late[LATE_RANK]


def cells_of(client: TestClient, value: str, columns: int = 48) -> np.ndarray:
    job = client.get("/api/job", params={"job": LLAMA}).json()
    first, last = job["first_step"], job["last_step"] + 1
    question = {"job": LLAMA, "value": value, "first": first, "last": last, "columns": columns}
    data = client.get("/api/heat", params=question).content
    return pa.ipc.open_stream(io.BytesIO(data)).read_all()["value"].to_numpy()


@pytest.mark.parametrize("columns", [6, 48, 480])
def test_any_counter_is_a_map_too(client: TestClient, columns: int) -> None:
    cells = cells_of(client, "counter:gpu.sm_clock_mhz", columns).reshape(8, columns)
    # The first step began before the first window of the counters.
    assert np.all(cells[:, 1:] == 1980.0)
    assert np.isnan(cells[:, 0]).all() == (columns == 480)
    assert cells_of(client, "counter:nothing").size == 0


def test_ranks_stand_under_the_roof_of_their_gpu(client: TestClient) -> None:
    found = client.get("/api/roofline", params={"job": LLAMA}).json()
    assert found["gpu"] == found["peaks"][0]["gpu"] == "H100-SXM"
    assert [point["rank"] for point in found["points"]] == list(range(8))
    for point in found["points"]:
        # Below the roof of the datasheet, and where the counters put it.
        assert point["flops"] == pytest.approx(point["tensor_ratio"] * 989.5e12)
        assert point["bytes"] == pytest.approx(point["memory_ratio"] * 3350e9)
        assert 0 < point["tensor_ratio"] < 0.6 and point["limit"] == "latency"
    limits = {kernel["category"]: kernel["limit"] for kernel in found["kernels"]}
    assert limits["gemm"] == "compute" and limits["norm"] == "memory"
    assert found["missing"] == ""


def test_a_roof_that_is_not_known_is_said_to_be(client: TestClient, collector: Collector) -> None:
    now_ns = time.time_ns()
    row = {"tenant": "default", "attempt": 0, "cluster": "c", "node": "n", "started_ns": now_ns}
    job = {"job": "plain", "updated_ns": now_ns, "ended_ns": 0, "state": "running"}
    rest = {"exit_code": 0, "signal": 0, "launcher": "", "world_size": 1, "command": "python"}
    collector.store.insert_rows("jobs", [{**row, **job, **rest, "facts": "{}"}])
    found = client.get("/api/roofline?job=plain").json()
    assert found["points"] == found["peaks"] == found["kernels"] == []
    assert "is not known" in found["missing"]
    named = client.get("/api/roofline?job=plain&gpu=H100-SXM").json()
    assert named["peaks"][0]["gpu"] == "H100-SXM" and "Hopper" in named["missing"]


def test_attempts_say_what_they_changed(client: TestClient, collector: Collector) -> None:
    again = fleet.FleetJob("vit-pretrain", ranks_per_node=2, first_node=2, attempt=1)
    fleet.send(collector, replace(again, command="python train.py --lr 2e-4"), 2)
    assert collector.writer.flush(60)
    answer = client.get("/api/job?job=vit-pretrain&turn=1").json()
    (change,) = answer["changes"]
    assert (change["attempt"], change["name"]) == (1, "command")
    assert change["after"] == "python train.py --lr 2e-4"
    assert [event["kind"] for event in answer["events"]] == ["start", "restart"]


def test_half_against_half_is_more_than_noise(client: TestClient) -> None:
    row = client.get("/api/job", params={"job": LLAMA}).json()
    middle = (row["first_step_ns"] + row["last_step_ns"]) // 2
    sides = {"before": LLAMA, "before_to": middle, "after": LLAMA, "after_from": middle}
    found = client.get("/api/compare", params=sides).json()
    assert "slower, which is more than noise" in found["headline"]
    assert found["is_noise"] is False
    parts = {part["what"]: part for part in found["parts"]}
    assert parts["loader"]["after_ns"] > 5 * parts["loader"]["before_ns"]


def _send(collector: Collector, job: FleetJob, from_ns: int, to_ns: int) -> None:
    sent = []
    for agent in agents_of(job, from_ns):
        for at_ns in range(from_ns, to_ns, WINDOW_NS):
            body = agent.batch(at_ns, at_ns + WINDOW_NS, "running")
            decoded = decode("default", body, Clock(), at_ns + WINDOW_NS)
            sent.append(collector.writer.submit(body, decoded))
    for each in sent:
        each.result(30)
    assert collector.writer.flush(60)


def test_kernels_are_compared_by_the_steps_of_their_own_windows(
    client: TestClient, collector: Collector
) -> None:
    """Sums of five minutes reach beyond a stretch: divided by the steps in it alone, kernels that
    do not change would seem to."""
    steady = FleetJob("steady", ranks_per_node=1, first_node=30, step_ns=2_000_000_000)
    begin_ns = (time.time_ns() // 300_000_000_000 - 6) * 300_000_000_000 + 140_000_000_000
    _send(collector, steady, begin_ns, begin_ns + 1500 * 1_000_000_000)
    middle = begin_ns + 750 * 1_000_000_000
    sides = {"before": "steady", "before_from": begin_ns, "before_to": middle}
    sides |= {"after": "steady", "after_from": middle, "after_to": middle + 750 * 1_000_000_000}
    found = client.get("/api/compare", params=sides).json()
    assert len(found["kernels"]) > 10
    for kernel in found["kernels"]:
        assert kernel["after_ns"] == pytest.approx(kernel["before_ns"], rel=0.03), kernel
    compute = next(part for part in found["parts"] if part["what"] == "compute")
    total = sum(kernel["before_ns"] for kernel in found["kernels"])
    assert total == pytest.approx(compute["before_ns"], rel=0.05)


def test_two_stretches_alike_are_noise(client: TestClient) -> None:
    row = client.get("/api/job", params={"job": LLAMA}).json()
    begin, length = row["first_step_ns"], row["last_step_ns"] - row["first_step_ns"]
    edges = [begin + part * length // 10 for part in range(5)]
    verdicts = []
    for first, middle, last in zip(edges, edges[1:], edges[2:], strict=False):
        sides = {"before": LLAMA, "before_from": first, "before_to": middle}
        sides |= {"after": LLAMA, "after_from": middle, "after_to": last}
        verdicts.append(client.get("/api/compare", params=sides).json()["is_noise"])
    # One of twenty such pairs differs by chance, as the page says.
    assert verdicts.count(True) >= 1 and None not in verdicts


def test_a_stretch_that_jumps_is_not_called_too_short(
    client: TestClient, collector: Collector
) -> None:
    now_ns = time.time_ns() // WINDOW_NS * WINDOW_NS
    begin_ns = now_ns - 400 * 1_000_000_000
    jump = FleetFault("slow_link", 0, begin_ns + 100 * 1_000_000_000, factor=2.0)
    job = FleetJob("jumps", ranks_per_node=2, first_node=31, faults=(jump,))
    _send(collector, job, begin_ns, now_ns)
    middle = begin_ns + 200 * 1_000_000_000
    sides = {"before": "jumps", "before_from": begin_ns, "before_to": middle}
    sides |= {"after": "jumps", "after_from": middle, "after_to": now_ns}
    found = client.get("/api/compare", params=sides).json()
    assert found["before"]["steps"] > 100
    assert found["noise_probability"] is None
    assert "too few" not in found["headline"]
    assert "differ too much among themselves" in found["headline"]


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("/api/job?job=nothing", 404),
        ("/api/job", 400),
        (f"/api/heat?job={LLAMA}&value=bogus", 400),
        (f"/api/heat?job={LLAMA}&first=9&last=3", 400),
        (f"/api/heat?job={LLAMA}&first=0&last=3&columns=99999", 400),
        ("/api/compare?before=a&after=b&before_from=9&before_to=3", 400),
        ("/api/traces/..%2f..%2fetc", 404),
        ("/api/traces/nowhere", 404),
    ],
)
def test_a_wrong_question_gets_one_line(client: TestClient, path: str, status: int) -> None:
    answer = client.get(path)
    assert answer.status_code == status
    if answer.headers["content-type"] == "application/json":
        assert len(answer.json()["error"].splitlines()) == 1


def test_the_page_has_the_strict_policy_on_the_collector_too(client: TestClient) -> None:
    policy = client.get("/").headers["content-security-policy"]
    assert "script-src 'self'" in policy and "unsafe" not in policy


def test_another_site_is_not_answered(client: TestClient) -> None:
    assert client.get("/api/fleet", headers={"host": "evil.example"}).status_code == 421
    foreign = {"origin": "http://evil.example", "sec-fetch-site": "cross-site"}
    assert client.get("/api/fleet", headers=foreign).status_code == 403


def test_the_description_names_every_question_and_its_answer(client: TestClient) -> None:
    told = client.get("/api/openapi.json").json()
    assert told["openapi"].startswith("3.1")
    paths = told["paths"]
    for question in QUESTIONS:
        names = {parameter["name"] for parameter in paths[question.path]["get"]["parameters"]}
        assert names == set(question.parameters)
    answer = paths["/api/fleet"]["get"]["responses"]["200"]["content"]["application/json"]
    assert answer["schema"] == {"$ref": "#/components/schemas/Fleet"}
    assert "headline" in told["components"]["schemas"]["Fleet"]["properties"]


def test_the_sentence_about_a_job_says_since_when_who_and_why(collector: Collector) -> None:
    reader = Reader(collector.store)
    finding = replace(
        queries.findings(reader, LLAMA)[0],
        title="The device of rank 5 runs at a lower clock",
        ranks=[5],
        evidence=["1,095 MHz, the others 1,980 MHz"],
    )
    told = headline(queries.job(reader, LLAMA), Pace(412e6, 349e6, "yesterday"), finding, 0.92)
    assert told == (
        "Step 412 ms, 18 % slower than yesterday; rank 5 is late in 92 % of steps:"
        " its GPU runs at a lower clock (1,095 MHz, the others 1,980 MHz)."
    )


def test_a_job_that_became_slower_is_not_said_to_be_well(collector: Collector) -> None:
    detail = queries.job(Reader(collector.store), LLAMA)
    slower = headline(detail, Pace(412e6, 349e6, "yesterday"), None, None)
    assert slower == "Step 412 ms, 18 % slower than yesterday; no rule has found why."
    same = headline(detail, Pace(412e6, 411e6, "yesterday"), None, None)
    assert same == "Step 412 ms. Nothing is found to be wrong with it."
