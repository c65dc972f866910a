"""A real job through the whole path: probe, agent, collector, command line."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from pilotlight.recording.recording import Recording
from pilotlight.trace.reader import read_traces

pytest.importorskip("chdb", reason="the collector needs pilotlight[server]")
import httpx2 as httpx

JOB = """
import time, pilotlight
end = time.monotonic() + {seconds}
step = 0
while time.monotonic() < end:
    pilotlight.step(step)
    step += 1
    with pilotlight.annotate("work"):
        time.sleep(0.01)
"""


def pilotlight(*words: str) -> list[str]:
    return [sys.executable, "-m", "pilotlight", *words]


def ask(*words: str) -> Any:
    done = subprocess.run(pilotlight(*words, "--json"), capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.fixture
def collector(world: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """The address of a collector that agents and verbs of this test find by themselves."""
    serving = subprocess.Popen(
        pilotlight("serve", "--json", "--port", "0", "--store", str(tmp_path / "store")),
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PILOTLIGHT": "0"},
    )
    assert serving.stdout is not None
    url = json.loads(serving.stdout.readline())["url"]
    monkeypatch.setenv("PILOTLIGHT_COLLECTOR", url)
    monkeypatch.setenv("PILOTLIGHT_CLUSTER", "lab")
    yield url
    serving.send_signal(signal.SIGTERM)
    assert serving.wait(60) == 0
    serving.stdout.close()


def until(condition: Callable[[], Any], timeout_s: float = 40.0) -> Any:
    deadline = time.monotonic() + timeout_s
    while not (found := condition()):
        assert time.monotonic() < deadline, "never became true"
        time.sleep(0.3)
    return found


def test_a_recorded_job_is_found_in_the_collector(collector: str, tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text(JOB.format(seconds=4))
    words = pilotlight("run", "-q", "--name", "nightly", "--", sys.executable, str(script))
    assert subprocess.run(words, timeout=60).returncode == 0
    (job,) = until(lambda: [one for one in ask("jobs") if one["state"] == "finished"])
    assert (job["job"], job["cluster"], job["ranks"]) == ("nightly", "lab", 1)
    # Who the rows are of is stored before the rows.
    (rank,) = until(lambda: [one for one in ask("ranks", "nightly") if one["steps"]])
    steps = ask("steps", "nightly", "--limit", "5000")
    # The step that was under way at the end has no end.
    assert sorted(row["step"] for row in steps) == list(range(rank["step"] + 1))
    assert rank["steps"] == len(steps) > 100
    # The tables of a batch come in one after the other.
    ranges = until(lambda: ask("kernels", "nightly", "--of", "ranges"))
    assert [row["name"] for row in ranges] == ["work"]
    assert ask("job", "nightly")["losses"] == {}
    counted = ask("query", "SELECT count() FROM steps WHERE job = 'nightly'")
    assert counted["rows"] == [[len(steps)]]


def test_detail_of_a_running_job_comes_to_the_collector(collector: str, tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text(JOB.format(seconds=40))
    words = pilotlight("run", "-q", "--name", "long", "--", sys.executable, str(script))
    job = subprocess.Popen(words)
    try:
        until(lambda: ask("jobs"))
        folder = tmp_path / "brought"
        words = ("--seconds", "5", "--collector", collector, "-o", str(folder), "--timeout", "60")
        done = subprocess.run(
            pilotlight("capture", "long", "--json", *words),
            capture_output=True,
            text=True,
            timeout=90,
        )
        assert done.returncode == 0, done.stderr
        assert json.loads(done.stdout)["state"] == "stored"
        (part,) = folder.glob("*/capture-*")
        recording = Recording.open(part)
        assert recording.manifest.job == "long"
        assert recording.detail("steps").rows > 50
        again = tmp_path / "again"
        id = json.loads(done.stdout)["id"]
        assert ask("capture", "long", "--id", id, "-o", str(again))["id"] == id
        assert [one.name for one in again.glob("*/capture-*")] == [part.name]
    finally:
        job.send_signal(signal.SIGTERM)
        job.wait(60)


def test_what_collecting_costs_is_told_to_the_page_of_agents(
    collector: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PILOTLIGHT_BATCH_SECONDS", "1")
    script = tmp_path / "train.py"
    script.write_text(JOB.format(seconds=200))
    words = pilotlight("run", "-q", "--name", "costly", "--", sys.executable, str(script))
    job = subprocess.Popen(words)
    try:
        with httpx.Client(base_url=collector, timeout=30) as page:

            def told() -> Any:
                rows = page.get("v1/costs").raise_for_status().json()["data"]
                return [row for row in rows if row["cost"]["sampler_ratio"] is not None]

            (row,) = until(told, 150)
            agents = page.get("v1/agents").raise_for_status().json()["data"]
            about = page.get("api/job", params={"job": "costly"}).raise_for_status().json()
    finally:
        job.send_signal(signal.SIGTERM)
        job.wait(60)
    assert [agent["agent"] for agent in agents] == [row["agent"]]
    assert row["cpu_ceiling_ratio"] > 0 and row["memory_ceiling_bytes"] > 0
    assert row["cost"]["processes"] == 1 and 0 <= row["cost"]["sampler_ratio"] < 1
    # No GPU is recorded here: that its cost was not measured is told, and not as 0.
    assert row["cost"]["measured"] == 0 and row["cost"]["overhead_high"] is None
    assert about["cost"] == row["cost"]


TORCH = """
import os, time, torch
import torch.distributed as dist
rank = int(os.environ["RANK"])
torch.set_num_threads(1)
dist.init_process_group("gloo", init_method="file://{meeting}", rank=rank, world_size=2)
model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(8, 8))
optimizer = torch.optim.SGD(model.parameters(), 0.1)
for step in range(1_000_000):
    with torch.profiler.record_function(f"user {{step}}"):
        optimizer.zero_grad()
        model(torch.randn(4, 8)).sum().backward()
        time.sleep(0.02)
        optimizer.step()
"""


def start_node(folder: Path, rank: int, script: Path) -> subprocess.Popen[bytes]:
    """A rank of the job `two` on what the collector takes for a machine of its own."""
    (folder / "run").mkdir(parents=True)
    env = {
        **os.environ,
        "PILOTLIGHT_NODE": f"node{rank}",
        "PILOTLIGHT_RUNTIME_DIR": str(folder / "run"),
        "PILOTLIGHT_DATA_DIR": str(folder / "data"),
        "OMP_NUM_THREADS": "1",
        "RANK": str(rank),
        "WORLD_SIZE": "2",
    }
    words = pilotlight("run", "-q", "--name", "two", "--", sys.executable, str(script))
    return subprocess.Popen(words, env=env, start_new_session=True)


def capture_two(collector: str, folder: Path) -> tuple[int, dict[str, Any]]:
    words = ("--steps", "3", "--ranks", "all", "--collector", collector, "--timeout", "120")
    done = subprocess.run(
        pilotlight("capture", "two", "--json", "-o", str(folder), *words),
        capture_output=True,
        text=True,
        timeout=150,
    )
    assert done.stdout, done.stderr
    return done.returncode, json.loads(done.stdout)


def test_the_nodes_of_a_job_are_traced_in_the_same_steps(
    collector: str, world: Path, tmp_path: Path
) -> None:
    pytest.importorskip("torch")
    script = tmp_path / "train.py"
    script.write_text(TORCH.format(meeting=tmp_path / "meeting"))
    nodes = [start_node(world / f"n{rank}", rank, script) for rank in (0, 1)]
    try:
        until(lambda: len(ask("ranks", "two")) == 2 if ask("jobs") else False, 120)
        # On a machine that is busy with other things a rank may poll, or take its first step, too
        # late: that is told, and tried again.
        for number in range(4):
            folder = tmp_path / f"brought{number}"
            code, result = capture_two(collector, folder)
            if code == 0 and result["same_steps"] and result["first_step"] is not None:
                break
    finally:
        for node in nodes:
            os.killpg(node.pid, signal.SIGTERM)
        for node in nodes:
            node.wait(60)
    assert code == 0 and result["same_steps"] is True, result
    first = result["first_step"]
    asked = [one for one in result["processes"] if one["answered"]["state"] == "done"]
    assert sorted(one["node"] for one in asked) == ["node0", "node1"]
    for one in asked:
        assert [step["number"] for step in one["steps"]] == [first, first + 1, first + 2]
    traces = read_traces([folder]).traces
    assert [trace.rank for trace in traces] == [0, 1]
    for trace in traces:
        # Not what pilotlight thinks: what the program itself called these steps.
        called = {int(name.split()[1]) for name in trace.names if name.startswith("user ")}
        assert {first, first + 1, first + 2} <= called
