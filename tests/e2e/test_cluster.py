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

pytest.importorskip("chdb", reason="the collector needs pilotlight[server]")

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
    (rank,) = ask("ranks", "nightly")
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
    finally:
        job.send_signal(signal.SIGTERM)
        job.wait(60)


TORCH = """
import sys, time, torch
layer = torch.nn.Linear(8, 8)
optimizer = torch.optim.SGD(layer.parameters(), 0.1)
end = time.monotonic() + 60
while time.monotonic() < end:
    optimizer.zero_grad()
    layer(torch.randn(4, 8)).sum().backward()
    optimizer.step()
    time.sleep(0.02)
"""


def test_full_traces_of_a_torch_job_come_through_the_collector(
    collector: str, tmp_path: Path
) -> None:
    pytest.importorskip("torch")
    script = tmp_path / "train.py"
    script.write_text(TORCH)
    job = subprocess.Popen(
        pilotlight("run", "-q", "--name", "torchy", "--", sys.executable, str(script))
    )
    try:
        until(lambda: ask("jobs"))
        folder = tmp_path / "brought"
        words = ("--steps", "3", "--ranks", "all", "--collector", collector, "--timeout", "120")
        done = subprocess.run(
            pilotlight("capture", "torchy", "--json", "-o", str(folder), *words),
            capture_output=True,
            text=True,
            timeout=150,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        (manifest,) = folder.glob("*/capture-*/traces/capture.json")
        (process,) = [
            one for one in json.loads(manifest.read_text())["processes"] if one.get("file")
        ]
        assert (manifest.parent / process["file"]).stat().st_size > 1000
        analysed = subprocess.run(
            pilotlight("analyze", str(manifest.parent), "--json"), capture_output=True, timeout=60
        )
        assert analysed.returncode == 0, analysed.stderr
    finally:
        job.send_signal(signal.SIGTERM)
        job.wait(60)
