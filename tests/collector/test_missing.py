"""Two ranks with gloo, one of which does not come to the next collective: the agent asks them over
its socket, and the collector names who is missing."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

pytest.importorskip("torch")
pytest.importorskip("chdb", reason="the collector needs pilotlight[server]")

import uvicorn
from tests.collector.conftest import until

from pilotlight.collector.app import make_app
from pilotlight.collector.collector import Collector
from pilotlight.insights.online import diagnose_windows
from pilotlight.store.place import parse_place

SECOND = 1_000_000_000

RANK = """
import sys
import pilotlight
import torch
import torch.distributed as dist

rank, meeting = int(sys.argv[1]), sys.argv[2]
torch.set_num_threads(1)
dist.init_process_group("gloo", init_method=f"file://{meeting}", rank=rank, world_size=2)
for step in range(5):
    pilotlight.step(step)
    dist.all_reduce(torch.ones(10))
print("waits", flush=True)
if rank == 0:
    dist.all_reduce(torch.ones(10))
else:
    sys.stdin.read()
"""


@contextmanager
def listening(collector: Collector) -> Iterator[str]:
    listener = socket.create_server(("127.0.0.1", 0))
    server = uvicorn.Server(uvicorn.Config(make_app(collector), log_config=None))
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
    thread.start()
    try:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
    finally:
        collector.doorbell.close()
        server.should_exit = True
        thread.join(60)
        listener.close()


def start_rank(rank: int, meeting: Path) -> subprocess.Popen[str]:
    env = {**os.environ, "PILOTLIGHT": "1", "PILOTLIGHT_JOB": "job", "OMP_NUM_THREADS": "1"}
    env |= {"RANK": str(rank), "LOCAL_RANK": str(rank), "WORLD_SIZE": "2"}
    env |= {"TORCHELASTIC_RUN_ID": "job", "TORCH_FR_BUFFER_SIZE": "2000"}
    words = [sys.executable, "-c", RANK, str(rank), str(meeting)]
    return subprocess.Popen(
        words, env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )


def test_the_collector_names_the_rank_that_a_real_collective_waits_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    collector = Collector(parse_place(str(tmp_path / "store")))
    started: list[subprocess.Popen[str]] = []
    with listening(collector) as url:
        monkeypatch.setenv("PILOTLIGHT_COLLECTOR", url)
        words = [sys.executable, "-m", "pilotlight", "agent", "--json", "--batch-seconds", "1"]
        env = {**os.environ, "PILOTLIGHT": "0"}
        agent = subprocess.Popen(words, stdout=subprocess.PIPE, text=True, env=env)
        try:
            assert agent.stdout is not None and json.loads(agent.stdout.readline())
            started = [start_rank(rank, tmp_path / "meeting") for rank in (0, 1)]
            # The agent asks ranks that have made no step for ten seconds.
            job = until(
                lambda: [
                    job
                    for job in collector.watcher.jobs()
                    if len(job.ranks) == 2 and all(one.entered for one in job.ranks.values())
                ],
                120,
            )[0]
            windows, told_ns = job.short_windows(), job.told_ns
        finally:
            for rank in started:
                rank.kill()
                rank.communicate()
            agent.send_signal(signal.SIGTERM)
            agent.communicate(timeout=60)
            collector.close()
    # As the collector looks half a minute later.
    (finding,) = diagnose_windows(windows, told_ns + 60 * SECOND).findings
    assert (finding.cause, finding.rank) == ("hang", 1)
    assert "not entered: all_reduce, collective 6 of group 0 default_pg" in finding.evidence
