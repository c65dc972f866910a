"""kill -9 of the agent and of the collector with its store, in a loop, while a real job runs."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from itertools import pairwise
from pathlib import Path

import pytest
from tests.collector.conftest import RunningCollector, until

pytest.importorskip("chdb", reason="the collector needs pilotlight[server]")

from pilotlight.store.place import parse_place
from pilotlight.store.store import Store

# `make soak` asks for many more.
KILLS = int(os.environ.get("SOAK_KILLS", "4"))
JOB = """
import pathlib, sys, time
import pilotlight
step = 0
while not pathlib.Path(sys.argv[1]).exists():
    pilotlight.step(step)
    step += 1
    time.sleep(0.01)
print(step)
"""


def start_agent(batch_s: int = 1) -> subprocess.Popen[str]:
    words = [sys.executable, "-m", "pilotlight", "agent", "--json", "--batch-seconds", str(batch_s)]
    env = {**os.environ, "PILOTLIGHT": "0"}
    agent = subprocess.Popen(words, stdout=subprocess.PIPE, text=True, env=env)
    assert agent.stdout is not None and json.loads(agent.stdout.readline())["pid"] == agent.pid
    agent.stdout.close()
    return agent


def test_nothing_sent_is_lost_or_doubled_when_agent_and_collector_are_killed_in_turn(
    running: RunningCollector, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("PILOTLIGHT_COLLECTOR", running.url)
    chance = random.Random(7)
    agent = start_agent()
    script, end = tmp_path / "job.py", tmp_path / "end"
    script.write_text(JOB)
    words = [sys.executable, "-m", "pilotlight", "run", "-q", "--name", "job", "--"]
    words += [sys.executable, str(script), str(end)]
    job = subprocess.Popen(words, stdout=subprocess.PIPE, text=True)
    agents_killed = 0
    try:
        until(lambda: running.get("/v1/jobs")["data"], 60)
        for turn in range(KILLS):
            time.sleep(chance.uniform(0.1, 1.2))
            if turn % 2:
                port = running.port
                running.kill()
                running.start(port=port)
            else:
                agents_killed += 1
                agent.kill()
                agent.wait()
                agent = start_agent()
        end.touch()
        said, _ = job.communicate(timeout=60)
        # After a kill the sender waits some seconds at random before it tries again. That the job
        # has ended may be told in a batch before that with its last steps.
        until(lambda: running.get("/v1/jobs")["data"][0]["state"] == "finished", 90)
        name = running.get("/v1/jobs")["data"][0]["job"]
        last = int(said) - 2
        until(lambda: running.get(f"/v1/job?job={name}")["data"]["last_step"] == last, 90)
    finally:
        end.touch()
        agent.send_signal(signal.SIGTERM)
        agent.wait(60)
        job.wait(60)
    assert running.stop() == 0
    with Store(parse_place(str(running.store))) as store:
        # All that was ever sealed has come, once: no sequence of any agent is missing.
        for count, different, last in store.select(
            "SELECT count(), uniqExact(sequence), max(sequence) FROM batches GROUP BY agent, epoch"
        ):
            assert count == different == last
        steps = [int(row[0]) for row in store.select("SELECT step FROM steps ORDER BY step")]
        lost_s = store.select("SELECT sum(count) FROM losses WHERE what LIKE 'seconds%'")[0][0]
        counted = store.select("SELECT sum(count) FROM job_totals")[0][0]
    assert len(steps) == len(set(steps)) == counted
    # Only what a killed agent had not yet put into a batch is missing, and that is said.
    gaps = [after - before - 1 for before, after in pairwise(steps) if after - before > 1]
    assert len(gaps) + (steps[0] > 0) <= agents_killed
    assert lost_s >= agents_killed
    assert steps[-1] == int(said) - 2


def test_an_agent_that_is_told_to_stop_sends_first_what_it_has_of_jobs_that_go_on(
    running: RunningCollector, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("PILOTLIGHT_COLLECTOR", running.url)
    agent = start_agent(batch_s=30)
    script, end = tmp_path / "job.py", tmp_path / "end"
    script.write_text(JOB)
    words = [sys.executable, "-m", "pilotlight", "run", "-q", "--name", "job", "--"]
    words += [sys.executable, str(script), str(end)]
    job = subprocess.Popen(words, stdout=subprocess.PIPE, text=True)
    try:
        until(lambda: running.get("/v1/jobs")["data"], 90)
        time.sleep(3)
        agent.send_signal(signal.SIGTERM)
        assert agent.wait(60) == 0
        agent = start_agent(batch_s=30)
        time.sleep(1)
        end.touch()
        said, _ = job.communicate(timeout=60)
        until(lambda: running.get("/v1/jobs")["data"][0]["state"] == "finished", 90)
    finally:
        end.touch()
        agent.send_signal(signal.SIGTERM)
        agent.wait(60)
        job.wait(60)
    assert running.stop() == 0
    with Store(parse_place(str(running.store))) as store:
        steps = [int(row[0]) for row in store.select("SELECT step FROM steps ORDER BY step")]
        assert store.select("SELECT count() FROM losses WHERE what LIKE 'seconds%'") == [(0,)]
    assert steps == list(range(int(said) - 1))
