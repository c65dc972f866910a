"""Probes of every kind meet a real agent."""

from __future__ import annotations

import os
import resource
import signal
import socket
import struct
import subprocess
import sys
import time

import pytest
from producer import RING_BYTES, RINGS_OFFSET, TABLE_OFFSET, Producer, answer, connect
from running import RunningAgent, until

from pilotlight.agent.settings import Settings, within_limits
from pilotlight.runtime import Runtime

ACCEPTED, REFUSED, PERIOD = 1, 2, 3
ABI, SEGMENT, TOO_MANY = 1, 3, 4


def accepted(agent: RunningAgent, producer: Producer) -> Producer:
    producer.connect(agent.place.probe_socket)
    assert producer.answer()[0] == ACCEPTED
    return producer


def test_what_a_probe_publishes_is_in_the_recording(agent: RunningAgent) -> None:
    producer = accepted(agent, Producer())
    for number in range(100):
        producer.counter(number)
    until(lambda: agent.status()["processes"][0]["read"] >= 101)
    with agent.client() as client:
        client.ask("flush", job="job")
    assert sorted(agent.recording().detail("counters")["value"].tolist()) == list(range(100))
    assert producer.tail == producer.head
    producer.close()


def test_a_foreign_abi_is_refused_with_its_reason(agent: RunningAgent) -> None:
    producer = Producer()
    producer.connect(agent.place.probe_socket, packet=producer.hello(major=9))
    assert producer.answer()[:2] == (REFUSED, ABI)
    assert sum(agent.status()["agent"]["refused"].values()) == 1
    producer.close()


def test_a_segment_without_seals_is_refused(agent: RunningAgent) -> None:
    producer = Producer(seals=0)
    producer.connect(agent.place.probe_socket)
    assert producer.answer()[:2] == (REFUSED, SEGMENT)
    producer.close()


def test_a_descriptor_that_is_no_memory_is_refused(agent: RunningAgent) -> None:
    reading, writing = os.pipe()
    link = connect(agent.place.probe_socket, Producer().hello(), [reading])
    assert answer(link)[:2] == (REFUSED, SEGMENT)
    link.close()
    os.close(reading)
    os.close(writing)


def test_a_hello_with_two_descriptors_or_none_is_refused(agent: RunningAgent) -> None:
    producer = Producer()
    producer.connect(agent.place.probe_socket, copies=2)
    assert producer.answer()[:2] == (REFUSED, SEGMENT)
    link = connect(agent.place.probe_socket, producer.hello(), [])
    assert answer(link)[:2] == (REFUSED, SEGMENT)
    link.close()
    producer.close()


def test_garbage_instead_of_a_hello_is_refused(agent: RunningAgent) -> None:
    for garbage in (b"x", b"\0" * 24, os.urandom(64)):
        link = connect(agent.place.probe_socket, garbage, [])
        assert answer(link)[:2] == (REFUSED, ABI)
        link.close()


def test_a_header_that_lies_is_refused(agent: RunningAgent) -> None:
    producer = Producer()
    producer.put64(136, 1 << 40)
    producer.connect(agent.place.probe_socket)
    assert producer.answer()[:2] == (REFUSED, SEGMENT)
    producer.close()


def test_a_hostile_ring_harms_nobody_else(agent: RunningAgent) -> None:
    good, bad = accepted(agent, Producer()), accepted(agent, Producer())
    bad.map[RINGS_OFFSET : RINGS_OFFSET + RING_BYTES] = os.urandom(RING_BYTES)
    bad.put64(TABLE_OFFSET, 1 << 62)
    for number in range(50):
        good.counter(number)

    def is_read() -> bool:
        found = {p["process"]: p for p in agent.status()["processes"]}
        return found[0]["read"] >= 51 and found[1]["losses"]["quarantined"] == 1

    until(is_read)
    with agent.client() as client:
        client.ask("flush", job="job")
    assert len(agent.recording().detail("counters")["value"]) == 50
    good.close()
    bad.close()


def test_an_identity_that_is_no_json_still_gets_a_recording(agent: RunningAgent) -> None:
    producer = Producer()
    producer.set_identity(b"[" * 5000)
    accepted(agent, producer)
    assert until(lambda: agent.status()["processes"])[0]["job"] == f"pid-{os.getpid()}"
    producer.close()


def test_somebody_who_never_says_hello_is_hung_up_on(agent: RunningAgent) -> None:
    link = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    link.settimeout(10)
    link.connect(str(agent.place.probe_socket))
    assert link.recv(64) == b""
    assert agent.status()["agent"]["refused"] == {"silent": 1}
    link.close()


def test_a_segment_of_another_process_is_refused(agent: RunningAgent) -> None:
    producer = accepted(agent, Producer())
    thief = Producer()
    thief.map[64:80] = producer.segment_id
    thief.connect(agent.place.probe_socket)
    assert thief.answer()[:2] == (REFUSED, SEGMENT)
    assert agent.status()["processes"][0]["connected"]
    producer.close()
    thief.close()


def test_a_probe_that_lost_its_line_comes_back_as_the_same_process(agent: RunningAgent) -> None:
    producer = accepted(agent, Producer())
    assert producer.link is not None
    producer.link.close()
    until(lambda: not agent.status()["processes"][0]["connected"])
    accepted(agent, producer)
    processes = agent.status()["processes"]
    assert [(p["process"], p["connected"]) for p in processes] == [(0, True)]
    producer.close()


CHILD = """
import sys
sys.path.insert(0, {folder!r})
from pathlib import Path
from producer import Producer
producer = Producer()
producer.connect(Path({socket!r}))
producer.answer()
for number in range(1000):
    producer.counter(number)
{then}
"""


def spawn(agent: RunningAgent, then: str) -> subprocess.Popen[bytes]:
    folder = os.path.dirname(sys.modules["producer"].__file__ or "")  # noqa: PTH120
    code = CHILD.format(folder=folder, socket=str(agent.place.probe_socket), then=then)
    return subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE)


@pytest.mark.parametrize(
    ("then", "how"),
    [
        ("import os, signal; os.kill(os.getpid(), signal.SIGKILL)", "died"),
        ("producer.exit()", "exit"),
        ("import os; os.execvp('sleep', ['sleep', '4'])", "exec"),
    ],
)
def test_how_a_process_ended_is_on_record_and_all_it_published(
    agent: RunningAgent, then: str, how: str
) -> None:
    child = spawn(agent, then)
    until(lambda: agent.status()["jobs"] and agent.status()["jobs"][0]["ended"])
    assert agent.status()["jobs"][0]["ended"][0]["how"] == how
    recording = agent.recording()
    assert sorted(recording.detail("counters")["value"].tolist()) == list(range(1000))
    (process,) = recording.processes
    assert process.end is not None
    assert (process.end.how, process.end.read) == (how, 1002 if how == "exit" else 1001)
    child.communicate()


def test_a_process_that_closes_its_line_but_lives_is_drained_on(agent: RunningAgent) -> None:
    """As a daemon does that closes all descriptors: the mapping is still there."""
    producer = accepted(agent, Producer())
    assert producer.link is not None
    producer.link.close()
    until(lambda: not agent.status()["processes"][0]["connected"])
    since = time.monotonic()
    until(lambda: time.monotonic() - since > 3.5)
    producer.counter(1.0)
    until(lambda: agent.status()["processes"][0]["read"] == 2)
    producer.close()


def test_a_stopped_process_is_not_taken_for_dead(agent: RunningAgent) -> None:
    child = spawn(agent, "import signal; print('ready', flush=True); signal.pause()")
    assert child.stdout is not None
    child.stdout.readline()
    child.send_signal(signal.SIGSTOP)
    before = until(lambda: [p for p in agent.status()["processes"] if p["read"] == 1001])[0]
    assert before["alive"]
    child.kill()
    child.communicate()
    until(lambda: agent.status()["jobs"][0]["ended"])
    assert agent.status()["jobs"][0]["ended"][0]["how"] == "died"


def test_over_the_limit_probes_are_refused_and_counted(place: Runtime) -> None:
    agent = RunningAgent(place)
    agent.start_with(Settings(most_processes=3))
    producers = [Producer() for _ in range(5)]
    answers = []
    for producer in producers:
        producer.connect(agent.place.probe_socket)
        answers.append(producer.answer()[:2])
    assert answers == [(ACCEPTED, 0)] * 3 + [(REFUSED, TOO_MANY)] * 2
    assert agent.status()["agent"]["refused"] == {"too_many: too many": 2}
    for producer in producers:
        producer.close()
    agent.stop()


def test_control_messages_reach_the_probes_of_the_job(agent: RunningAgent) -> None:
    producer, other = accepted(agent, Producer()), accepted(agent, Producer(job="other"))
    with agent.client() as client:
        client.ask("control", job="job", action="pause")
        client.ask("control", job="job", action="resume")
        client.ask("control", job="job", action="period", value=20_000_000)
    assert [producer.answer() for _ in range(3)] == [(4, 0, 0), (5, 0, 0), (3, 0, 20_000_000)]
    assert other.link is not None
    other.link.setblocking(False)
    with pytest.raises(BlockingIOError):
        other.answer()
    late = accepted(agent, Producer())
    assert late.answer() == (3, 0, 20_000_000)
    for one in (producer, other, late):
        one.close()


def test_five_hundred_processes_at_once(agent: RunningAgent) -> None:
    producers = [Producer(rank=rank) for rank in range(500)]
    for producer in producers:
        producer.connect(agent.place.probe_socket)
    for producer in producers:
        assert producer.answer()[0] == ACCEPTED
        for number in range(20):
            producer.counter(number)
    until(lambda: agent.status()["jobs"][0]["records_read"] == 500 * 21, 60)
    status = agent.status()
    assert status["agent"]["processes"] == 500
    assert status["agent"]["own_bytes"] < 128 << 20
    with agent.client() as client:
        client.ask("flush", timeout_s=60, job="job")
    assert len(agent.recording().detail("counters")["value"]) == 500 * 20
    for producer in producers:
        producer.close()


def test_many_short_lived_processes_leave_no_descriptor_behind(agent: RunningAgent) -> None:
    before = len(os.listdir(f"/proc/{agent.pid}/fd"))  # noqa: PTH208
    for _ in range(300):
        child = os.fork()
        if child == 0:
            producer = Producer()
            producer.connect(agent.place.probe_socket)
            producer.counter(1)
            os._exit(0)
        os.waitpid(child, 0)
    until(lambda: agent.status()["jobs"][0]["processes_ever"] == 300, 30)
    until(lambda: agent.status()["agent"]["processes"] == 0, 30)
    with agent.client() as client:
        client.ask("flush", job="job")
    recording = agent.recording()
    assert len(recording.detail("counters")["value"]) == 300
    assert sum(process.end is not None for process in recording.processes) == 300
    # The files of the job's two chunks are open, nothing of its processes.
    assert len(os.listdir(f"/proc/{agent.pid}/fd")) - before < 40  # noqa: PTH208


def test_over_its_cpu_ceiling_the_agent_asks_for_a_longer_sampling_period(place: Runtime) -> None:
    agent = RunningAgent(place)
    agent.start_with(Settings(cpu_ceiling_ratio=1e-6))
    producer = accepted(agent, Producer())
    assert producer.link is not None
    producer.link.settimeout(40)
    kind, _, period_ns = producer.answer()
    assert (kind, period_ns) == (PERIOD, 20_000_000)
    status = agent.status()["agent"]
    assert status["period_factor"] == 2 and status["actions"]["poll_slower"] == 3
    producer.close()
    agent.stop()


def test_a_packet_after_the_hello_is_a_hang_up(agent: RunningAgent) -> None:
    producer = accepted(agent, Producer())
    assert producer.link is not None
    producer.link.send(struct.pack("<Q", 1))
    with pytest.raises(struct.error):
        producer.answer()  # nothing more comes
    assert list(agent.status()["agent"]["problems"].values()) == [1]
    producer.close()


@pytest.mark.parametrize(("hard", "jobs", "processes"), [(1024, 5, 148), (1 << 20, 64, 1024)])
def test_few_descriptors_leave_room_for_jobs_and_their_processes(
    monkeypatch: pytest.MonkeyPatch, hard: int, jobs: int, processes: int
) -> None:
    monkeypatch.setattr(resource, "getrlimit", lambda _: (256, hard))
    monkeypatch.setattr(resource, "setrlimit", lambda *_: None)
    found = within_limits(Settings())
    assert (found.most_jobs, found.most_processes) == (jobs, processes)
