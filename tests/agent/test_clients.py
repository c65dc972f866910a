"""Clients of every kind meet a real agent."""

from __future__ import annotations

import contextlib
import json
import os
import socket
import subprocess
import sys
import time

import pytest
from producer import Producer, knock, say
from running import RunningAgent, until

from pilotlight.client import Client
from pilotlight.errors import AgentError, NotFound, UsageError
from pilotlight.subscribe import subscribe


def raw(agent: RunningAgent) -> socket.socket:
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    connection.settimeout(10)
    connection.connect(str(agent.place.client_socket))
    return connection


def read_all(connection: socket.socket) -> bytes:
    data = b""
    while piece := connection.recv(1 << 16):
        data += piece
    connection.close()
    return data


def joined(agent: RunningAgent, job: str = "job") -> Producer:
    producer = Producer(job=job, rank=3)
    producer.connect(agent.place.probe_socket)
    producer.answer()
    return producer


@pytest.mark.parametrize(
    "line",
    [
        b"hello\n",
        b"[]\n",
        b"{}\n",
        b'{"want": 1}\n',
        b"[" * 100_000 + b"\n",
        b"\xff\xfe\n",
        b"x" * (1 << 20),
        b"x" * (3 << 20) + b"\n",
    ],
    ids=["text", "list", "empty", "number", "deep", "binary", "endless", "long"],
)
def test_nonsense_is_answered_with_one_error_line_and_a_hang_up(
    agent: RunningAgent, line: bytes
) -> None:
    connection = raw(agent)
    # The agent hangs up as soon as it knows enough, perhaps before all was sent.
    with contextlib.suppress(BrokenPipeError, ConnectionResetError):
        connection.sendall(line)
    answer = b""
    with contextlib.suppress(ConnectionResetError):
        while piece := connection.recv(1 << 16):
            answer += piece
    connection.close()
    assert answer.count(b"\n") == 1
    assert json.loads(answer)["ok"] is False
    assert len(agent.status()["clients"]) == 1


@pytest.mark.parametrize(
    ("request_", "error"),
    [
        ({"want": "fly"}, "no such want"),
        ({"want": "flush"}, "name a job or a pid"),
        ({"want": "flush", "job": 3}, "job is 3 instead of str"),
        ({"want": "flush", "pid": True}, "pid is True"),
        ({"want": "record", "job": ""}, "printable"),
        ({"want": "record", "job": "a\nb"}, "printable"),
        ({"want": "record", "job": "a", "folder": "b"}, "from the root"),
        ({"want": "record", "job": "a", "folder": "/proc/none"}, "/proc/none"),
        ({"want": "control", "job": "job", "action": "dance"}, "no such action"),
        ({"want": "control", "job": "job", "action": "period", "value": -1}, "a period is"),
        ({"want": "subscribe", "kinds": ["all"]}, "kinds are"),
        ({"want": "stacks", "pid": 1}, "no process 1"),
        ({"want": "finish", "job": "none"}, "no job none; being recorded: job"),
    ],
)
def test_a_request_that_makes_no_sense_is_refused_and_the_client_kept(
    agent: RunningAgent, request_: dict[str, object], error: str
) -> None:
    producer = joined(agent)
    with agent.client() as client:
        want = str(request_["want"])
        fields = {key: value for key, value in request_.items() if key != "want"}
        with pytest.raises((AgentError, NotFound), match=error):
            client.ask(want, **fields)  # type: ignore[arg-type]
        assert client.ask("status")["ok"]
    producer.close()


def test_a_client_that_never_reads_costs_nobody_anything(agent: RunningAgent) -> None:
    producer = joined(agent)
    lazy = raw(agent)
    lazy.sendall(b'{"want": "subscribe", "kinds": ["spans", "status"]}\n')
    with subscribe(kinds=("steps",), job="job") as eager:
        steps = 0
        for number in range(101):
            for _ in range(40):
                producer.span()
            producer.step(number)
            # A pace that the smallest of rings can hold between two polls.
            time.sleep(0.02)
        while steps < 100:
            steps += len(next(eager)["rows"])
    clients = agent.status()["clients"]
    behind = next(client for client in clients if "spans" in client["kinds"])
    assert 0 < behind["queued_bytes"] <= 4 << 20
    assert producer.dropped == 0
    lazy.close()
    producer.close()


def test_a_client_that_asks_and_never_reads_is_no_longer_heard(agent: RunningAgent) -> None:
    connection = raw(agent)
    connection.setblocking(False)
    request = b'{"want": "status"}\n' * 1000
    sent = 0
    with pytest.raises(BlockingIOError):
        while sent < 64 << 20:
            sent += connection.send(request)
            agent.status()
    assert agent.status()["agent"]["own_bytes"] < 64 << 20
    connection.close()


def test_many_clients_at_once_and_no_more_than_allowed(agent: RunningAgent) -> None:
    clients = [agent.client() for _ in range(128)]
    for client in clients:
        assert client.ask("status")["ok"]
    late = raw(agent)
    assert b"which is all it takes" in read_all(late)
    for client in clients:
        client.close()


def test_subscribers_get_steps_spans_windows_and_processes_with_names(
    agent: RunningAgent,
) -> None:
    with subscribe(kinds=("steps", "spans", "windows", "processes")) as subscription:
        producer = joined(agent)
        producer.step(7)
        producer.step(8)
        producer.span()
        rows: dict[str, list[dict[str, object]]] = {}
        while {"steps", "spans", "windows", "processes"} - rows.keys():
            message = next(subscription)
            assert message["job"] == "job"
            rows.setdefault(message["kind"], []).extend(message["rows"])
        producer.close()
    (step,) = rows["steps"]
    assert (step["step"], step["rank"], step["pid"]) == (7, 3, os.getpid())
    (span,) = rows["spans"]
    assert (span["text"], span["kind"]) == ("n", 1)
    assert {(row["kind"], row.get("text")) for row in rows["windows"]} == {(1, "n"), (4, None)}
    assert rows["processes"][0]["event"] == "start"


def test_a_subscriber_of_one_job_does_not_see_another(agent: RunningAgent) -> None:
    with subscribe(kinds=("processes",), job="wanted") as subscription:
        producers = [joined(agent, "other"), joined(agent, "wanted")]
        assert next(subscription)["job"] == "wanted"
    for producer in producers:
        producer.close()


def test_a_slow_subscriber_is_told_its_lag(agent: RunningAgent) -> None:
    producer = joined(agent)
    connection = raw(agent)
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    connection.sendall(b'{"want": "subscribe", "kinds": ["spans"]}\n')

    def is_behind() -> bool:
        for _ in range(200):
            producer.span()
        clients = agent.status()["clients"]
        return any(client["dropped"] for client in clients)

    until(is_behind, 60)
    lines = connection.makefile("rb")
    while True:
        message = json.loads(lines.readline())
        if message.get("kind") == "lag":
            break
    assert message["dropped"] > 0 and message["queued"] >= 0
    lines.close()
    connection.close()
    producer.close()


def test_a_subscriber_hears_of_the_end_of_the_agent_in_one_line(agent: RunningAgent) -> None:
    with subscribe(kinds=("status",)) as subscription:
        assert next(subscription)["rows"][0]["agent"]["pid"] == agent.pid
        agent.kill()
        with pytest.raises(AgentError, match="the agent hung up"):
            while True:
                next(subscription)
    agent.start()


def test_without_an_agent_a_client_says_what_to_do(place: object) -> None:
    with pytest.raises(AgentError, match="pilotlight run"):
        Client()
    with pytest.raises(UsageError, match="no such kind: all; have status"):
        subscribe(kinds=("all",))


def test_finish_waits_for_the_processes_and_closes_the_recording(agent: RunningAgent) -> None:
    with agent.client() as client:
        folder = client.ask("record", job="job", folder=None, command=["python", "x.py"])["folder"]
        child = os.fork()
        if child == 0:
            producer = joined(agent)
            for number in range(10):
                producer.counter(number)
            os._exit(0)
        os.waitpid(child, 0)
        summary = client.ask("finish", job="job", exit_code=3, signal=None, timeout_s=20)
    assert summary["folder"] == folder and summary["still_running"] == []
    assert summary["records_read"] == 11 and summary["records_dropped"] == 0
    recording = agent.recording()
    assert (recording.state, recording.manifest.exit_code) == ("finished", 3)
    assert recording.manifest.command == ("python", "x.py")
    assert recording.detail("counters").rows == 10


def test_finish_waits_for_a_process_that_has_connected_and_not_said_hello(
    agent: RunningAgent,
) -> None:
    with agent.client() as client:
        client.ask("record", job="job", folder=None, command=[])
        child = os.fork()
        if child == 0:
            producer = Producer()
            producer.counter(1)
            link = knock(agent.place.probe_socket)
            time.sleep(2.5)
            say(link, producer.hello(), [producer.fd])
            os._exit(0)
        time.sleep(0.5)
        summary = client.ask("finish", job="job", exit_code=0, timeout_s=20)
        os.waitpid(child, 0)
    assert summary["processes_ever"] == 1
    assert agent.recording().detail("counters").rows == 1


def test_finish_answers_although_somebody_connects_and_never_says_hello(
    agent: RunningAgent,
) -> None:
    with agent.client() as client, knock(agent.place.probe_socket):
        client.ask("record", job="job", folder=None, command=[])
        summary = client.ask("finish", job="job", exit_code=0, timeout_s=20)
    assert summary["processes_ever"] == 0


def test_finish_answers_although_a_process_lives_on(agent: RunningAgent) -> None:
    with agent.client() as client:
        client.ask("record", job="job", folder=None, command=[])
        producer = joined(agent)
        producer.counter(1)
        summary = client.ask("finish", job="job", exit_code=0, timeout_s=20)
        assert summary["still_running"] == [os.getpid()]
        assert agent.recording().detail("counters").rows == 1
        assert agent.recording().manifest.state == "recording"
    producer.close()


def test_a_folder_that_is_not_empty_is_not_recorded_into(
    agent: RunningAgent, tmp_path: object
) -> None:
    with agent.client() as client, pytest.raises(AgentError, match="not empty"):
        client.ask("record", job="job", folder=os.path.dirname(__file__), command=[])  # noqa: PTH120


def test_stacks_of_a_stopped_process_are_read_from_outside(agent: RunningAgent) -> None:
    code = (
        "import pilotlight, time\npilotlight.start()\n"
        "def deep_inside():\n    print('ready', flush=True)\n    time.sleep(60)\ndeep_inside()\n"
    )
    child = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE)
    assert child.stdout is not None
    child.stdout.readline()
    until(lambda: agent.status()["processes"])
    child.send_signal(19)
    with agent.client() as client:
        answer = client.ask("stacks", pid=child.pid)
    functions = [frame["function"] for thread in answer["threads"] for frame in thread["frames"]]
    assert "deep_inside" in functions
    child.kill()
    child.communicate()
