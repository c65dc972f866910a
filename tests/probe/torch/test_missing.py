"""Two ranks with gloo, one of which does not come to the next collective: who it is gets named."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from threading import Timer

import pytest

from pilotlight.agent.stalled import waits_of
from pilotlight.insights.online import Progress, RankWindow, diagnose_windows

pytest.importorskip("torch")

SECOND = 1_000_000_000
LONGEST_S = 120

# The main thread of rank 0 waits in its third collective while another one is asked, as the errand
# of the agent is served by a thread of its own.
RANK = """
import json, os, sys, threading, time
import torch
import torch.distributed as dist
from pilotlight.probe import errands

rank, meeting = int(sys.argv[1]), sys.argv[2]
torch.set_num_threads(1)
dist.init_process_group("gloo", init_method=f"file://{meeting}", rank=rank, world_size=2)
dist.all_reduce(torch.ones(10))
dist.all_reduce(torch.ones(10))

def tell(entered):
    while True:
        answer = errands._collectives({})
        if any(told["entered"] >= entered for told in answer["groups"].values()):
            print(json.dumps(answer), flush=True)
            sys.stdin.read()
            os._exit(0)
        time.sleep(0.01)

if rank == 1:
    tell(2)
threading.Thread(target=tell, args=(3,)).start()
dist.all_reduce(torch.ones(10))
"""


def start(rank: int, meeting: Path) -> subprocess.Popen[str]:
    env = {**os.environ, "PILOTLIGHT": "0", "OMP_NUM_THREADS": "1", "TORCH_FR_BUFFER_SIZE": "2000"}
    words = [sys.executable, "-c", RANK, str(rank), str(meeting)]
    return subprocess.Popen(
        words, env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )


def test_the_rank_that_a_real_collective_waits_for_is_named(tmp_path: Path) -> None:
    ranks = [start(rank, tmp_path / "meeting") for rank in (0, 1)]
    watch = Timer(LONGEST_S, lambda: [rank.kill() for rank in ranks])
    watch.start()
    try:
        told = [rank.stdout.readline() for rank in ranks if rank.stdout is not None]
    finally:
        for rank in ranks:
            rank.communicate()
        watch.cancel()
    waits = [waits_of(json.loads(line)) for line in told]
    windows = [
        RankWindow(
            rank,
            [1, 2],
            [1e8, 1e8],
            progress=Progress(0, each.entered, each.finished, operations=each.operations),
        )
        for rank, each in enumerate(waits)
    ]
    (finding,) = diagnose_windows(windows, 60 * SECOND).findings
    assert (finding.cause, finding.rank) == ("hang", 1)
    assert "not entered: all_reduce, collective 3 of group 0 default_pg" in finding.evidence
