"""kill -9 of the agent: what was published is in the recording exactly once."""

from __future__ import annotations

import os
import random
import subprocess
import sys
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor

import pytest
from producer import Producer
from running import RunningAgent, until

from pilotlight import _drain
from pilotlight.recording.recording import Recording
from pilotlight.report.report import report_of

BURST = 8
KILLS = 6
# Runs until its standard input is closed; then says how far it came. So slowly that its ring lasts
# for the start of an agent on a machine that has other things to do.
LOAD = f"""
import pilotlight, select, sys, time
pilotlight.start()
number = 0
while not select.select([sys.stdin], [], [], 0.03)[0]:
    for _ in range({BURST}):
        pilotlight.counter("n", number)
        with pilotlight.annotate("work"):
            number += 1
    pilotlight.step(number)
print(number)
"""


def ranges_in_windows(recording: Recording) -> int:
    windows = recording.windows("windows")
    return int(windows["count"][windows["kind"] == 1].sum())


@pytest.mark.parametrize("seed", [1, 2])
def test_an_agent_killed_again_and_again_loses_nothing_and_doubles_nothing(
    agent: RunningAgent, seed: int
) -> None:
    chance = random.Random(seed)
    load = subprocess.Popen(
        [sys.executable, "-c", LOAD],
        env={**os.environ, "PILOTLIGHT_JOB": "load"},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    for _ in range(KILLS):
        until(lambda: agent.status()["processes"])
        # Not synchronisation: the moment of the kill is what is random here.
        time.sleep(chance.uniform(0, 1.2))
        agent.kill()
        agent.start()
    until(lambda: agent.status()["processes"])
    number = int(load.communicate()[0])
    with agent.client() as client:
        client.ask("finish", job="load", exit_code=0, timeout_s=20)
    recording = agent.recording("load")
    values = Counter(recording.detail("counters")["value"].tolist())
    assert recording.detail("gaps").rows == 0
    assert values == Counter(range(number))
    assert recording.detail("spans")["kind"].tolist().count(1) == number
    assert ranges_in_windows(recording) == number
    assert recording.windows("steps").rows == recording.detail("steps").rows == number // BURST - 1
    assert recording.state == "finished"
    assert len(recording.manifest.agent.restarts) == KILLS
    assert [process.end.how for process in recording.processes if process.end] == ["exit"]
    assert recording.warnings == []


def test_a_range_open_over_a_kill_keeps_its_beginning(agent: RunningAgent) -> None:
    from producer import BEGIN, END

    producer = Producer()
    producer.connect(agent.place.probe_socket)
    producer.answer()
    began_ns = time.monotonic_ns()
    producer.record(BEGIN, producer.name, bytes(16))
    with agent.client() as client:
        client.ask("flush", job="job")
    agent.kill()
    agent.start()
    producer.connect(agent.place.probe_socket)
    producer.answer()
    producer.record(END, producer.name, bytes(16))
    with agent.client() as client:
        until(lambda: agent.status()["processes"][0]["read"])
        client.ask("flush", job="job")
    spans = agent.recording().detail("spans")
    assert spans.rows == 1
    assert abs(int(spans["start_ns"][0]) - began_ns) < 1_000_000_000
    producer.close()


def test_rows_written_but_not_in_the_journal_are_cut_and_read_again(agent: RunningAgent) -> None:
    """The moment between data and journal, made by hand."""
    producer = Producer()
    producer.connect(agent.place.probe_socket)
    producer.answer()
    for number in range(10):
        producer.counter(number)
    with agent.client() as client:
        client.ask("flush", job="job")
        folder = client.ask("flush", job="job")["folder"]
    agent.kill()
    chunk = sorted((agent.recordings()[0] / "detail").iterdir())[-1]
    with (chunk / "counters.arrows").open("ab") as stream:
        stream.write(b"half of a batch")
    with (chunk / "commit.jsonl").open("ab") as stream:
        stream.write(b'{"lengths": {"counters.arr')
    agent.start()
    producer.connect(agent.place.probe_socket)
    producer.answer()
    producer.counter(10)
    until(lambda: agent.status()["processes"][0]["read"])
    with agent.client() as client:
        assert client.ask("flush", job="job")["folder"] == folder
    recording = agent.recording()
    assert sorted(recording.detail("counters")["value"].tolist()) == list(range(11))
    assert recording.warnings == []
    producer.close()


def test_a_process_that_died_without_an_agent_is_gone_and_the_job_ends(
    agent: RunningAgent,
) -> None:
    child = os.fork()
    if child == 0:
        producer = Producer()
        producer.connect(agent.place.probe_socket)
        producer.answer()
        time.sleep(60)
        os._exit(0)
    until(lambda: agent.status()["processes"])
    agent.kill()
    os.kill(child, 9)
    os.waitpid(child, 0)
    agent.start()
    until(lambda: agent.recording().processes[0].end, 60)
    until(lambda: agent.is_finished("job"), 60)
    (process,) = agent.recording().processes
    assert process.end is not None and process.end.how == "gone"


def test_a_process_that_died_without_an_agent_is_told_also_when_its_job_is_closed_at_once(
    agent: RunningAgent,
) -> None:
    child = os.fork()
    if child == 0:
        producer = Producer()
        producer.connect(agent.place.probe_socket)
        producer.answer()
        time.sleep(60)
        os._exit(0)
    until(lambda: agent.status()["processes"])
    agent.kill()
    os.kill(child, 9)
    os.waitpid(child, 0)
    agent.start()
    with agent.client() as client:
        client.ask("finish", job="job", exit_code=0, timeout_s=20)
    recording = agent.recording()
    (process,) = recording.processes
    assert recording.state == "finished"
    assert process.end is not None and process.end.how == "gone"
    assert [f"(pid {child})" in told for told in report_of(recording).losses.warnings] == [True]


def test_a_probe_whose_agent_was_long_away_finds_the_next_one_soon(agent: RunningAgent) -> None:
    load = subprocess.Popen(
        [sys.executable, "-c", LOAD],
        env={**os.environ, "PILOTLIGHT_JOB": "load"},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    until(lambda: agent.status()["processes"])
    agent.kill()
    # Doubled without end, its next look would be 4.3 s after this.
    time.sleep(7)
    agent.start()
    began_s = time.monotonic()
    until(lambda: agent.status()["processes"])
    assert time.monotonic() - began_s < 3
    load.communicate()


def test_a_job_that_ends_waits_for_a_process_that_has_not_found_the_next_agent_yet(
    agent: RunningAgent,
) -> None:
    producer = Producer()
    producer.connect(agent.place.probe_socket)
    producer.answer()
    agent.kill()
    producer.counter(1)
    agent.start()
    with ThreadPoolExecutor() as threads, agent.client() as client:
        asked = threads.submit(client.ask, "finish", job="job", exit_code=0, timeout_s=20)
        time.sleep(0.5)
        assert [job["job"] for job in agent.status()["jobs"]] == ["job"] and not asked.done()
        producer.connect(agent.place.probe_socket)
        producer.answer()
        assert asked.result()["still_running"] == [os.getpid()]
    assert agent.recording().detail("counters")["value"].tolist() == [1]
    producer.close()


def test_an_orderly_end_of_the_agent_leaves_a_job_that_the_next_one_goes_on_with(
    agent: RunningAgent,
) -> None:
    producer = Producer()
    producer.connect(agent.place.probe_socket)
    producer.answer()
    producer.counter(1)
    assert agent.stop() == ""
    assert not agent.place.client_socket.exists() and not agent.place.lock.exists()
    assert agent.recording().manifest.state == "recording"
    agent.start()
    producer.connect(agent.place.probe_socket)
    producer.answer()
    producer.counter(2)
    until(lambda: agent.status()["processes"][0]["read"])
    with agent.client() as client:
        client.ask("flush", job="job")
    assert agent.recording().detail("counters")["value"].tolist() == [1, 2]
    assert len(agent.recordings()) == 1
    producer.close()


def test_a_damaged_list_of_jobs_does_not_keep_the_agent_from_starting(
    agent: RunningAgent,
) -> None:
    agent.kill()
    for text in ("{", '{"jobs": [1, 2]}', '{"jobs": [["a", "/nonexistent"]]}', "[]"):
        agent.place.jobs.write_text(text)
        agent.start()
        assert agent.status()["jobs"] == []
        agent.kill()
    agent.start()


@pytest.mark.parametrize(
    "positions",
    [
        {},
        {"rings": {"0": [3, 0, [], None, 0, 0, 0]}, "known": [0, 0]},
        {"rings": {"0": [1 << 40, 0, [], None, 0, 0, 0]}, "known": [0, 0]},
        {"rings": {"99": [0, 0, [], None, 0, 0, 0]}, "known": [0, 0]},
        {"rings": {"zero": []}, "known": None},
    ],
)
def test_positions_that_make_no_sense_are_told_and_nothing_is_skipped(
    positions: dict[str, object],
) -> None:
    producer = Producer()
    producer.counter(1)
    reader = _drain.Reader(producer.fd, 0, 1)
    assert not reader.resume(positions)
    assert reader.read() == 2


def test_positions_of_an_earlier_reader_are_believed() -> None:
    producer = Producer()
    first = _drain.Reader(producer.fd, 0, 1)
    first.read()
    first.take()
    producer.counter(1)
    second = _drain.Reader(producer.fd, 0, 2)
    assert second.resume(first.positions())
    assert second.read() == 1
