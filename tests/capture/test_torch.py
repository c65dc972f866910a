"""Captures of real, unmodified PyTorch jobs."""

from __future__ import annotations

import importlib.util
import json
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from capture_jobs import (
    ADVERSARIAL,
    EVALUATING,
    SINGLE,
    SPAWN,
    TRAIN,
    RunningJob,
    agent_pid,
    left_at_last,
)

from pilotlight.capture.manifest import read_capture
from pilotlight.trace.reader import read_traces

pytestmark = pytest.mark.skipif(
    importlib.util.find_spec("torch") is None, reason="torch is not installed"
)

RANKS = 4
TORCHRUN = (sys.executable, "-m", "torch.distributed.run", "--nproc-per-node")


def steps_of_the_program(names: tuple[str, ...]) -> set[int]:
    """What the program itself called its steps; the last one is only begun."""
    return {int(name.split()[1]) for name in names if name.startswith("user ")}


def test_the_same_steps_of_all_ranks_come_in_one_folder(world: Path) -> None:
    job = RunningJob(world, "train", TRAIN, *TORCHRUN, str(RANKS), "PROGRAM")
    try:
        agent = agent_pid()
        code, result, said = job.capture_in_step("--steps", "3", "--shapes")
        words = ["train", "--ranks", "1,7", "--steps", "1", "--memory", "-o", str(world / "one")]
        partial = subprocess.run(
            [sys.executable, "-m", "pilotlight", "capture", *words],
            capture_output=True,
            text=True,
        )
    finally:
        printed = job.stop()
    assert code == 0, (said, result)
    assert result["same_steps"] is True
    ranks = [p for p in result["processes"] if p["answered"]["role"] == "rank"]
    assert [p["answered"]["rank"] for p in ranks] == list(range(RANKS))
    first = result["first_step"]
    for process in ranks:
        assert [step["number"] for step in process["steps"]] == [first, first + 1, first + 2]
    others = [p["answered"] for p in result["processes"] if p["answered"]["role"] != "rank"]
    assert [(p["role"], p["state"]) for p in others] == [("launcher", "left out")]

    found = read_traces([world / "capture"])
    assert not found.problems
    for trace in found.traces:
        # Not what pilotlight thinks: what the program itself called these steps.
        assert {first, first + 1, first + 2} <= steps_of_the_program(trace.names)
        assert trace.steps.number.tolist() == [first, first + 1, first + 2]
        assert trace.world_size == RANKS
    assert left_at_last(agent) == []
    assert "Kineto" not in printed and "ActivityProfiler" not in printed

    assert partial.returncode == 1
    manifest = read_capture(world / "one")
    assert [p.answered.rank for p in manifest.processes if p.file] == [1]
    assert "rank 7: no process of this node has it" in partial.stdout
    assert "not asked for" in partial.stdout
    # What torch 2.13 keeps to itself.
    assert "no allocations in them" in partial.stdout

    for verb in ("report", "analyze"):
        shown = subprocess.run(
            [sys.executable, "-m", "pilotlight", verb, str(world / "capture")],
            capture_output=True,
            text=True,
        )
        assert shown.returncode == 0, shown.stderr
    assert (
        f"{first}: "
        in subprocess.run(
            [sys.executable, "-m", "pilotlight", "report", str(world / "capture")],
            capture_output=True,
            text=True,
        ).stdout
    )


def test_ranks_that_a_program_spawns_are_told_from_their_loaders_workers(world: Path) -> None:
    job = RunningJob(world, "spawn", SPAWN, sys.executable, "PROGRAM")
    try:
        code, result, said = job.capture_in_step("--steps", "2")
    finally:
        job.stop()
    assert code == 0, (said, result)
    found = [p["answered"] for p in result["processes"]]
    asked = [(p["role"], p["rank"], p["world_size"]) for p in found if p["state"] == "done"]
    assert asked == [("rank", 0, 2), ("rank", 1, 2)]
    assert result["same_steps"] is True
    left = sorted(p["role"] for p in found if p["state"] == "left out")
    # The program itself, a worker of each rank, and multiprocessing's own tracker.
    assert left[:3] == ["launcher", "worker", "worker"]
    assert set(left) == {"launcher", "worker"}


def test_steps_of_several_optimizers_are_captured_as_a_whole(world: Path) -> None:
    job = RunningJob(world, "adversarial", ADVERSARIAL, sys.executable, "PROGRAM")
    try:
        code, result, said = job.capture("--steps", "2")
    finally:
        job.stop()
    assert code == 0, (said, result)
    (process,) = result["processes"]
    numbers = [step["number"] for step in process["steps"]]
    first = numbers[0]
    # A busy machine may hold Kineto up for one more.
    assert numbers in ([first, first + 1], [first, first + 1, first + 2])
    (trace,) = read_traces([world / "capture"]).traces
    # What the program itself called them.
    assert set(numbers) <= steps_of_the_program(trace.names)


def test_a_hung_job_is_explained_from_outside(world: Path) -> None:
    job = RunningJob(world, "hung", TRAIN, *TORCHRUN, "2", "PROGRAM", "hang")
    try:
        time.sleep(1)
        hang = subprocess.run(
            [sys.executable, "-m", "pilotlight", "hang", "hung"], capture_output=True, text=True
        )
        dump = subprocess.run(
            [sys.executable, "-m", "pilotlight", "dump", "hung", "-o", str(world / "dump")],
            capture_output=True,
            text=True,
        )
        code, result, said = job.capture()
    finally:
        job.stop()
    assert code == 1, said
    ranks = [p["answered"] for p in result["processes"] if p["answered"]["role"] == "rank"]
    assert all(p["state"] == "failed" and "hung" in p["reason"] for p in ranks)
    stacks = (world / "capture" / "stacks" / "stacks_rank1.json").read_text()
    assert "forgetful" in stacks
    assert sorted(path.name for path in (world / "capture" / "flight_recorder").iterdir()) == [
        "flight_recorder_0.pickle",
        "flight_recorder_1.pickle",
    ]
    assert "rank 1 at fault" in hang.stdout, hang.stderr
    assert "rank 1 at fault" in dump.stdout, dump.stderr
    assert (world / "dump" / "flight_recorder" / "flight_recorder_0.pickle").is_file()


def test_a_job_that_evaluates_for_long_does_not_hang_and_is_captured_when_it_trains(
    world: Path,
) -> None:
    job = RunningJob(world, "evaluating", EVALUATING, sys.executable, "PROGRAM")
    try:
        code, result, said = job.capture("--steps", "2")
    finally:
        job.stop()
    assert code == 0, (said, result)
    (process,) = result["processes"]
    first = result["first_step"]
    assert [step["number"] for step in process["steps"]] == [first, first + 1]
    (trace,) = read_traces([world / "capture"]).traces
    assert {first, first + 1} <= steps_of_the_program(trace.names)


def test_a_job_that_hangs_before_its_first_step_is_explained_too(world: Path) -> None:
    """Traces by time come of it, and nothing is in them."""
    job = RunningJob(world, "never", TRAIN, *TORCHRUN, "2", "PROGRAM", "never")
    try:
        code, result, said = job.capture()
        watch = subprocess.run(
            [sys.executable, "-m", "pilotlight", "watch", "never", "--seconds", "2"],
            capture_output=True,
            text=True,
        )
    finally:
        job.stop()
    assert code == 1, said
    ranks = [p["answered"] for p in result["processes"] if p["answered"]["role"] == "rank"]
    assert [(p["state"], p["reason"].split(":")[0]) for p in ranks] == [
        ("failed", "no operator of torch ran while it was traced")
    ] * 2
    assert not list((world / "capture").glob("rank*")) and not result["problems"]
    assert "forgetful" in (world / "capture" / "stacks" / "stacks_rank1.json").read_text()
    assert len(list((world / "capture" / "flight_recorder").iterdir())) == 2
    assert "rank 1 no step so far" in watch.stdout, watch.stdout


def test_a_rank_that_keeps_its_gil_does_not_keep_the_others_from_being_captured(
    world: Path,
) -> None:
    job = RunningJob(world, "gil", TRAIN, *TORCHRUN, "2", "PROGRAM", "gil")
    try:
        time.sleep(1)
        code, result, said = job.capture()
    finally:
        job.stop()
    assert code == 1, said
    ranks = [p["answered"] for p in result["processes"] if p["answered"]["role"] == "rank"]
    assert [p["state"] for p in ranks] == ["failed", "failed"]
    assert result["first_step"] is not None
    assert "hung: it has done no step" in ranks[0]["reason"]
    assert "hung: its GIL is held" in ranks[1]["reason"]
    assert "stubborn" in (world / "capture" / "stacks" / "stacks_rank1.json").read_text()


def test_a_process_without_steps_is_captured_by_time_and_its_death_is_told(world: Path) -> None:
    job = RunningJob(world, "single", SINGLE, sys.executable, "PROGRAM")
    try:
        code, result, said = job.capture("--seconds", "0.5", "--stacks")
        assert code == 0, (said, result)
        (process,) = result["processes"]
        assert result["first_step"] is None
        duration_s = (process["window_ns"][1] - process["window_ns"][0]) / 1e9
        assert 0.3 < duration_s < 3
        (trace,) = read_traces([world / "capture"]).traces
        assert "aten::mm" in trace.names

        pid = process["answered"]["pid"]
        (world / "capture").rename(world / "first")
        timer = threading.Timer(3, os.kill, (pid, signal.SIGKILL))
        timer.start()
        code, result, said = job.capture(target=str(pid))
        assert code == 1
        assert "died" in result["processes"][0]["answered"]["reason"]
    finally:
        job.stop()


def test_a_job_that_ends_while_it_is_traced_ends_as_it_would_without(world: Path) -> None:
    program = (
        "import itertools, time, torch\n"
        "model = torch.nn.Linear(8, 8)\n"
        "optimizer = torch.optim.SGD(model.parameters(), lr=0.1)\n"
        "end = float('inf')\n"
        "for number in itertools.count():\n"
        "    model(torch.randn(4, 8)).sum().backward()\n"
        "    optimizer.step()\n"
        "    time.sleep(0.02)\n"
        "    if number == 100:\n"
        "        print('ready', flush=True)\n"
        "        end = time.monotonic() + 12\n"
        "    if time.monotonic() > end:\n"
        "        break\n"
    )
    verb = [sys.executable, "-m", "pilotlight"]
    job = subprocess.Popen(
        [*verb, "run", "-q", "--name", "short", "--", sys.executable, "-c", program],
        stdout=subprocess.PIPE,
        text=True,
    )
    assert job.stdout is not None and job.stdout.readline() == "ready\n"
    asked = subprocess.run(
        [*verb, "capture", "short", "--steps", "1000", "-o", str(world / "capture"), "--json"],
        capture_output=True,
        text=True,
    )
    assert job.wait(60) == 0, asked.stdout
    job.stdout.close()
    (process,) = json.loads(asked.stdout)["processes"]
    assert process["answered"]["state"] == "failed"


def test_a_killed_agent_does_not_keep_a_job_from_exiting(world: Path) -> None:
    """A dead socket would: the client tries for ten seconds, and the process waits for it."""
    program = (
        "import os, sys, time\n"
        "import torch\n"
        "with open(os.environ['PILOTLIGHT_RUNTIME_DIR'] + '/agent.lock') as lock:\n"
        "    os.kill(int(lock.read()), 9)\n"
        "time.sleep(1)\n"
        "print('leaves', time.time(), flush=True)\n"
    )
    ended = subprocess.run(
        [sys.executable, "-m", "pilotlight", "run", "-q", "--", sys.executable, "-c", program],
        capture_output=True,
        text=True,
        env={**os.environ, "KINETO_LOG_LEVEL": "0"},
    )
    gone = time.time()
    assert "Setting up IPC Fabric" in ended.stderr, ended.stderr
    left = float(ended.stdout.split()[1])
    assert gone - left < 7


@pytest.mark.skipif(os.geteuid() != 0, reason="a network namespace of its own needs root")
def test_a_process_without_a_probe_is_captured_over_the_abstract_socket(world: Path) -> None:
    """In a network namespace of its own: the abstract name is one for the whole machine."""
    (world / "job.py").write_text(SINGLE)
    script = f"""
        {sys.executable} -m pilotlight agent --json > {world}/agent.log & agent=$!
        PILOTLIGHT=0 KINETO_USE_DAEMON=1 {sys.executable} {world}/job.py > {world}/job.log & job=$!
        until grep -q ready {world}/job.log; do sleep 0.2; done
        sleep 2
        {sys.executable} -m pilotlight capture $job --seconds 0.3 -o {world}/capture; code=$?
        kill $job; kill $agent; wait; exit $code
    """
    ended = subprocess.run(
        ["unshare", "-n", "sh", "-c", script], capture_output=True, text=True, timeout=120
    )
    if "unshare" in ended.stderr:
        pytest.skip(f"no network namespace: {ended.stderr.strip()}")
    assert ended.returncode == 0, ended.stdout + ended.stderr
    (process,) = read_capture(world / "capture").processes
    assert (process.answered.how, process.answered.state) == ("kineto", "done")
    assert process.spans > 0
