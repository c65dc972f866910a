"""A real job, a real agent, a real collector, a real browser: the page shows the line to blame."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

pytest.importorskip("chdb", reason="the collector needs pilotlight[server]")
pytest.importorskip("torch")

JOB = "real-straggler"
PROGRAM = """
import time, torch, torch.distributed as dist, pilotlight

def augment(rank):
    batch = torch.ones(64)
    if rank == 1:
        time.sleep(0.08)  # to blame
    return batch

dist.init_process_group("gloo")
for step in range(100_000):
    pilotlight.step(step)
    batch = augment(dist.get_rank())
    time.sleep(0.02)
    dist.all_reduce(batch)
"""
BLAMED = 1 + next(n for n, line in enumerate(PROGRAM.split("\n")) if "to blame" in line)


@pytest.fixture
def collector(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    words = [sys.executable, "-m", "pilotlight", "serve", "--json", "--port", "0"]
    serving = subprocess.Popen(
        [*words, "--store", str(tmp_path / "store")],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PILOTLIGHT": "0"},
    )
    assert serving.stdout is not None
    url = json.loads(serving.stdout.readline())["url"]
    monkeypatch.setenv("PILOTLIGHT_COLLECTOR", url)
    monkeypatch.setenv("PILOTLIGHT_BATCH_SECONDS", "1")
    yield url
    serving.send_signal(signal.SIGTERM)
    assert serving.wait(60) == 0
    serving.stdout.close()


@pytest.fixture
def job(collector: str, tmp_path: Path) -> Iterator[Path]:
    """The program of a job of three ranks that runs until the test is over."""
    program = tmp_path / "train.py"
    program.write_text(PROGRAM)
    words = [sys.executable, "-m", "pilotlight", "run", "-q", "--name", JOB, "--"]
    ranks = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "3"]
    running = subprocess.Popen([*words, *ranks, str(program)], stderr=subprocess.DEVNULL)
    yield program
    running.send_signal(signal.SIGTERM)
    running.wait(60)


def located(url: str) -> list[dict[str, Any]]:
    with urllib.request.urlopen(f"{url}/v1/findings?job={quote(JOB)}", timeout=30) as answer:
        rows = json.loads(answer.read())["data"]
    return [row for row in rows if row["cause"] == "straggler" and ", from " in row["place"]]


def test_the_page_leads_from_the_fleet_to_the_line_of_a_running_job(
    collector: str, job: Path, journey: Callable[..., None]
) -> None:
    deadline = time.monotonic() + 200
    while not (found := located(collector)):
        assert time.monotonic() < deadline, "no straggler with its line was found"
        time.sleep(1)
    line = f"{job.parent.name}/{job.name}:{BLAMED}"
    assert found[0]["ranks"] == [1] and found[0]["place"].endswith(f", from {line} augment")
    journey("line", f"{collector}/", JOB, line, "augment")
