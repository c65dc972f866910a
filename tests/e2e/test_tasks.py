"""Tasks of one step that each record themselves, as `srun pilotlight run -- COMMAND` does."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.e2e.conftest import Job, end_agent, is_alive, run_words, wait_until

from pilotlight.runtime import Runtime, agent_pid

PYTHON = sys.executable
Program = Callable[[str], str]
# Waits for all tasks to have begun: each leaves a file. Then the first ends first, and one fails.
TASK = """
import os, pathlib, sys, time, pilotlight
here, number = pathlib.Path(sys.argv[1]), int(os.environ["SLURM_PROCID"])
(here / f"task-{number}").touch()
while len(list(here.glob("task-*"))) < 3: time.sleep(0.01)
for i in range(5 + 20 * number):
    pilotlight.step(i)
    time.sleep(0.02)
sys.exit(3 if number == 1 else 0)
"""
STEPPING = """
import sys, time, pilotlight
for i in range(int(sys.argv[1])):
    pilotlight.step(i)
    time.sleep(0.06)
"""
# One task a node, which starts the ranks of that node itself.
SPAWNING = """
import time, torch
def work(local, size, store):
    torch.distributed.init_process_group(
        "gloo", init_method=f"file://{store}", rank=local, world_size=size)
    weight = torch.zeros(4, requires_grad=True)
    optimizer = torch.optim.SGD([weight], lr=0.1)
    for _ in range(30):
        weight.sum().backward()
        optimizer.step()
        time.sleep(0.1)
    torch.distributed.destroy_process_group()
if __name__ == "__main__":
    import sys
    torch.multiprocessing.spawn(work, (3, sys.argv[1]), nprocs=3)
"""


def task_environment(number: int, of: int) -> dict[str, str]:
    return {
        **os.environ,
        "SLURM_JOB_ID": "12",
        "SLURM_STEP_ID": "3",
        "SLURM_PROCID": str(number),
        "SLURM_LOCALID": str(number),
        "SLURM_STEP_NUM_TASKS": str(of),
    }


def test_tasks_of_one_step_share_a_recording_which_ends_with_the_last_as_the_failed_one(
    world: Path, tmp_path: Path, program: Program
) -> None:
    folder = world / "shared"
    words = run_words(folder, PYTHON, program(TASK), str(tmp_path))
    tasks = [
        subprocess.Popen(words, env=task_environment(n, 3), stderr=subprocess.PIPE, text=True)
        for n in range(3)
    ]
    said = [task.communicate(timeout=60)[1] for task in tasks]
    assert [task.returncode for task in tasks] == [0, 3, 0]
    assert said[:2] == ["", ""]
    assert "recorded 3 processes, " in said[2]
    job = Job(0, "", "", folder)
    assert sorted(one["identity"]["rank"] for one in job.processes) == [0, 1, 2]
    manifest = job.recording.manifest
    assert (manifest.job, manifest.state, manifest.exit_code) == ("slurm-12.3", "finished", 3)
    assert job.recording.detail("steps").rows == 4 + 24 + 44
    end_agent(world / "run")


def test_an_agent_that_is_killed_with_another_step_is_followed_by_one_of_this_job(
    world: Path, program: Program
) -> None:
    folder, place = world / "followed", Runtime(world / "run")
    run = subprocess.Popen(
        run_words(folder, PYTHON, program(STEPPING), "200"), stderr=subprocess.PIPE, text=True
    )
    wait_until(lambda: (folder / "processes.jsonl").exists(), "the job is recorded")
    first = agent_pid(place)
    assert first
    os.kill(first, signal.SIGKILL)
    wait_until(lambda: not is_alive(first), "the agent is dead")
    _, said = run.communicate(timeout=60)
    assert run.returncode == 0
    assert "by 2 agents in turn" in said
    job = Job(0, "", "", folder)
    assert job.recording.state == "finished"
    assert job.recording.detail("steps").rows == 199
    end_agent(world / "run")


def test_a_cancelled_step_has_its_recording_closed_though_the_agent_was_told_to_go_too(
    world: Path, program: Program
) -> None:
    folder, place = world / "cancelled", Runtime(world / "run")
    run = subprocess.Popen(
        run_words(folder, PYTHON, program(STEPPING), "100000"), stderr=subprocess.PIPE, text=True
    )
    wait_until(lambda: (folder / "processes.jsonl").exists(), "the job is recorded")
    agent = agent_pid(place)
    assert agent
    for pid in (agent, run.pid):
        os.kill(pid, signal.SIGTERM)
    run.communicate(timeout=60)
    assert run.returncode == -signal.SIGTERM
    manifest = Job(0, "", "", folder).recording.manifest
    assert (manifest.state, manifest.signal) == ("finished", signal.SIGTERM)
    end_agent(world / "run")


def test_ranks_that_a_task_spawns_are_numbered_by_torch_and_the_task_is_none_of_them(
    world: Path, tmp_path: Path, program: Program
) -> None:
    pytest.importorskip("torch")
    folder = world / "spawning"
    words = run_words(folder, PYTHON, program(SPAWNING), str(tmp_path / "store"))
    subprocess.run(words, env=task_environment(0, 2), check=True, timeout=100)
    who = [one["identity"] for one in Job(0, "", "", folder).processes]
    ranks = [one for one in who if one["role"] == "rank"]
    assert sorted((one["rank"], one["world_size"]) for one in ranks) == [(0, 3), (1, 3), (2, 3)]
    assert [one["rank"] for one in who if one["role"] == "main"] == [None]
    end_agent(world / "run")
