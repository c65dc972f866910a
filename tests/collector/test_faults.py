"""What goes wrong in the world, and that nothing acknowledged is lost by it."""

from __future__ import annotations

import http.client
import json
import random
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

pytest.importorskip("chdb", reason="the collector needs pilotlight[server]")

from tests.collector.conftest import RunningCollector, until

from pilotlight.collector.tokens import create_token, revoke_token
from pilotlight.ship.outbox import Outbox
from pilotlight.ship.sender import Sender
from pilotlight.ship.target import Target
from pilotlight.simulate.fleet import WINDOW_NS, FleetJob, SimulatedAgent
from pilotlight.store.place import parse_place
from pilotlight.store.store import Store

JOB = FleetJob("job", 1, 2)


def bodies(count: int, node: int = 0) -> list[bytes]:
    first_ns = time.time_ns() // WINDOW_NS * WINDOW_NS - count * WINDOW_NS
    agent = SimulatedAgent(JOB, node, first_ns)
    return [
        agent.batch(first_ns + n * WINDOW_NS, first_ns + (n + 1) * WINDOW_NS) for n in range(count)
    ]


def put_all(outbox: Outbox, sent: list[bytes]) -> None:
    for number, body in enumerate(sent, 1):
        outbox.put(1, number, 1, body)


def test_nothing_acknowledged_is_lost_when_the_collector_is_killed_again_and_again(
    running: RunningCollector, tmp_path: Path
) -> None:
    """kill -9 at any moment of ingest, three times; each batch is there once."""
    sent = bodies(30)
    chance = random.Random(3)
    done = threading.Event()

    def kill_now_and_then() -> None:
        for _ in range(3):
            time.sleep(chance.uniform(0.3, 1.5))
            port = running.port
            running.kill()
            running.start(port=port)
        done.set()

    killer = threading.Thread(target=kill_now_and_then)
    killer.start()
    acknowledged = 0
    for body in sent:
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline:
            try:
                status, _ = running.ask("POST", "/v1/batches", body)
            except (OSError, http.client.HTTPException):
                time.sleep(0.1)
                continue
            if status == 200:
                acknowledged += 1
                break
        time.sleep(0.05 if not done.is_set() else 0)
    killer.join()
    assert acknowledged == len(sent)
    assert running.stop() == 0
    with Store(parse_place(str(running.store))) as store:
        assert store.select("SELECT count(), uniqExact(sequence) FROM batches") == [(30, 30)]
        assert store.select("SELECT count() FROM steps") == [(30 * 20,)]
        for rollup in (
            "steps_1d",
            "job_steps_1d",
            "job_totals",
            "steps_x4096",
            "step_histogram_1d",
        ):
            assert store.select(f"SELECT sum(s.count) FROM {rollup} AS s") == [(30 * 20,)], rollup


def test_an_agent_keeps_its_batches_while_the_collector_is_away(
    running: RunningCollector, tmp_path: Path
) -> None:
    outbox = Outbox(tmp_path / "outbox", 1 << 20)
    target = Target(running.url, tmp_path)
    port = running.port
    running.kill()
    put_all(outbox, bodies(5))
    sender = Sender(target, outbox)
    sender.start()
    sender.wake()
    until(lambda: sender.problems)
    assert len(outbox) == 5
    running.start(port=port)
    until(lambda: len(outbox) == 0, 60)
    sender.stop(5)
    assert outbox.lost.batches == 0 and sender.sent == 5
    best = sender.clock.best
    assert best is not None and abs(best.offset_ns) <= best.uncertainty_ns + 10**7


def test_a_poisoned_batch_is_kept_aside_and_the_rest_goes_on(
    running: RunningCollector, tmp_path: Path
) -> None:
    outbox = Outbox(tmp_path / "outbox", 1 << 20)
    good = bodies(2)
    put_all(outbox, [good[0], b"poison", good[1]])
    sender = Sender(Target(running.url, tmp_path), outbox)
    sender.start()
    sender.wake()
    until(lambda: len(outbox) == 0)
    sender.stop(5)
    assert sender.sent == 2 and outbox.lost.batches == 1
    assert len(list((running.store / "aside").iterdir())) == 1


def test_a_revoked_token_stops_an_agent_in_the_middle_and_a_new_one_lets_it_go_on(
    tmp_path: Path,
) -> None:
    store = tmp_path / "store"
    tokens = parse_place(str(store)).tokens
    first, token = create_token(tokens, ["ingest"], "default", "nodes", 1)
    create_token(tokens, ["read"], "default", "people", 1)
    running = RunningCollector(store)
    running.start()
    file = tmp_path / "token"
    file.write_text(first)
    outbox = Outbox(tmp_path / "outbox", 1 << 20)
    sender = Sender(Target(running.url, tmp_path, token_file=file), outbox)
    sender.start()
    sent = bodies(4)
    put_all(outbox, sent[:2])
    sender.wake()
    until(lambda: sender.sent == 2)
    revoke_token(tokens, token.id)
    time.sleep(0.7)
    for number, body in enumerate(sent[2:], 3):
        outbox.put(1, number, 1, body)
    sender.wake()
    until(lambda: any(problem.startswith(("401", "ValueError")) for problem in sender.problems))
    assert len(outbox) == 2
    second, _ = create_token(tokens, ["ingest"], "default", "nodes", 1)
    file.write_text(second)
    until(lambda: sender.sent == 4, 60)
    sender.stop(5)
    running.stop()
    assert outbox.lost.batches == 0


def test_scopes_keep_tokens_apart_and_tenants_do_not_see_each_other(tmp_path: Path) -> None:
    store = tmp_path / "store"
    tokens = parse_place(str(store)).tokens
    made = {
        (scope, tenant): create_token(tokens, [scope], tenant, "", 1)[0]
        for scope in ("ingest", "read")
        for tenant in ("red", "blue")
    }
    running = RunningCollector(store)
    running.start()
    (body,) = bodies(1)
    assert running.ask("GET", "/v1/jobs")[0] == 401
    assert running.ask("GET", "/v1/jobs", token=made["ingest", "red"])[0] == 403
    assert running.ask("POST", "/v1/batches", body, made["read", "red"])[0] == 403
    assert running.ask("POST", "/v1/captures", b"{}", made["read", "red"])[0] == 403
    assert running.ask("POST", "/v1/batches", body, made["ingest", "red"])[0] == 200

    def jobs(tenant: str) -> list[str]:
        data = running.get("/v1/jobs", made["read", tenant])["data"]
        return [job["job"] for job in data]

    until(lambda: jobs("red") == ["job"])
    assert jobs("blue") == []
    sql = json.dumps({"sql": "SELECT count() FROM steps"}).encode()
    _, counted = running.ask("POST", "/v1/query", sql, made["read", "blue"])
    assert json.loads(counted)["data"]["rows"] == [[0]]
    assert running.ask("GET", "/healthz")[0] == 200
    running.stop()


def test_who_may_not_fetch_a_capture_does_not_ask_for_one(tmp_path: Path) -> None:
    store = tmp_path / "store"
    tokens = parse_place(str(store)).tokens
    may = {
        scope: create_token(tokens, [scope], "default", "", 1)[0]
        for scope in ("ingest", "capture", "read")
    }
    paper = tmp_path / "capture.token"
    paper.write_text(may["capture"])
    running = RunningCollector(store)
    running.start()
    (body,) = bodies(1)
    running.ask("POST", "/v1/batches", body, may["ingest"])
    until(lambda: running.get("/v1/jobs", may["read"])["data"])
    words = ["capture", "job", "--collector", f"http://127.0.0.1:{running.port}"]
    done = subprocess.run(
        [sys.executable, "-m", "pilotlight", *words, "--token-file", str(paper)],
        capture_output=True,
        text=True,
    )
    assert done.returncode != 0 and "has not the scope read" in done.stderr
    assert running.get("/v1/captures", may["read"])["data"] == []
    running.stop()


def test_another_address_demands_tls_and_tokens(tmp_path: Path) -> None:
    running = RunningCollector(tmp_path / "store")
    with pytest.raises(AssertionError, match=r"a certificate .* and a token .* needed"):
        running.start("--address", "0.0.0.0")
    assert running.process is not None and running.process.stdout is not None
    running.process.stdout.close()
    assert running.process.wait() == 2


def test_agents_speak_tls_and_distrust_strangers(tmp_path: Path) -> None:
    certificate, key = tmp_path / "c.pem", tmp_path / "k.pem"
    made = subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj",
         "/CN=localhost", "-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1",
         "-keyout", str(key), "-out", str(certificate)],
        capture_output=True,
    )  # fmt: skip
    if made.returncode:
        pytest.skip("openssl cannot make a certificate here")
    running = RunningCollector(tmp_path / "store")
    running.start("--certificate", str(certificate), "--key", str(key))
    outbox = Outbox(tmp_path / "outbox", 1 << 20)
    put_all(outbox, bodies(1))
    stranger = Sender(Target(running.url, tmp_path), outbox)
    stranger.start()
    stranger.wake()
    until(lambda: any("CERTIFICATE_VERIFY_FAILED" in problem for problem in stranger.problems))
    stranger.stop(5)
    assert len(outbox) == 1
    friend = Sender(Target(running.url, tmp_path, authority=certificate), outbox)
    friend.start()
    friend.wake()
    until(lambda: friend.sent == 1)
    friend.stop(5)
    running.stop()


def test_a_thousand_agents_that_come_back_at_once_are_all_served(
    running: RunningCollector,
) -> None:
    """Each has one batch; all of them knock within a second."""
    now_ns = time.time_ns() // WINDOW_NS * WINDOW_NS
    sent = [
        SimulatedAgent(FleetJob("job", 1000, 1), node, 1).batch(now_ns - WINDOW_NS, now_ns)
        for node in range(1000)
    ]
    statuses: list[int] = []

    def come(mine: list[bytes]) -> None:
        for body in mine:
            connection = http.client.HTTPConnection("127.0.0.1", running.port, timeout=60)
            connection.request("POST", "/v1/batches", body)
            statuses.append(connection.getresponse().status)
            connection.close()

    threads = [threading.Thread(target=come, args=(sent[n::50],)) for n in range(50)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert statuses.count(200) == 1000
    until(lambda: (running.get("/v1/jobs")["data"] or [{"ranks": 0}])[0]["ranks"] == 1000, 60)


def test_a_host_name_that_is_not_ours_is_turned_away(running: RunningCollector) -> None:
    """A page of a stranger that made its name point at this machine."""
    connection = http.client.HTTPConnection("127.0.0.1", running.port, timeout=10)
    connection.request("GET", "/v1/jobs", headers={"host": "evil.example"})
    assert connection.getresponse().status == 421
    connection.close()
    connection = http.client.HTTPConnection("127.0.0.1", running.port, timeout=10)
    connection.request("POST", "/v1/captures", b"{}", {"origin": "http://evil.example"})
    assert connection.getresponse().status == 403
    connection.close()


def test_bodies_are_bounded(running: RunningCollector) -> None:
    connection = http.client.HTTPConnection("127.0.0.1", running.port, timeout=10)
    connection.putrequest("POST", "/v1/batches")
    connection.putheader("content-length", str(17 << 20))
    connection.endheaders()
    assert connection.getresponse().status == 413
    connection.close()
    assert running.ask("POST", "/v1/query", bytes(100_000))[0] == 413
