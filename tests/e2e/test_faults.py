"""What goes wrong in production: nothing published is lost, and the job never notices."""

from __future__ import annotations

import contextlib
import mmap
import os
import random
import signal
import struct
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.e2e.conftest import Job, end_agent, run_words, wait_until

from pilotlight.recording.recording import Recording
from pilotlight.runtime import Runtime, agent_pid

PYTHON = sys.executable
RunJob = Callable[..., Job]
Program = Callable[[str], str]
Started = Callable[[list[str]], "subprocess.Popen[bytes]"]

# Publishes a step, then says so in shared memory: what is said there must be in the recording.
COUNTING = """
import mmap, struct, sys, pilotlight
with open(sys.argv[1], "r+b") as file: shared = mmap.mmap(file.fileno(), 8)
for i in range(int(sys.argv[2])):
    pilotlight.step(i)
    struct.pack_into("<q", shared, 0, i + 1)
    if i % 50 == 0: sum(range(20_000))
"""


class SharedCount:
    """A number that the job writes and that outlives it."""

    def __init__(self, path: Path, memory: mmap.mmap) -> None:
        self.path = str(path)
        self._memory = memory

    def read(self) -> int:
        return int(struct.unpack_from("<q", self._memory, 0)[0])

    def reset(self) -> None:
        struct.pack_into("<q", self._memory, 0, 0)


@pytest.fixture
def shared(tmp_path: Path) -> Iterator[SharedCount]:
    path = tmp_path / "count"
    path.write_bytes(bytes(8))
    with path.open("r+b") as file, mmap.mmap(file.fileno(), 8) as memory:
        yield SharedCount(path, memory)


@pytest.fixture
def started() -> Iterator[Started]:
    """Starts commands that do not outlive the test, however it ends."""
    running: list[subprocess.Popen[bytes]] = []

    def start(words: list[str]) -> subprocess.Popen[bytes]:
        running.append(subprocess.Popen(words, start_new_session=True))
        return running[-1]

    yield start
    for process in running:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def steps_of(folder: Path) -> list[int]:
    """The numbers of all steps that ended; step i ends when step i + 1 is published."""
    return Recording.open(folder).detail("steps")["step"].tolist()


def test_a_job_killed_at_any_moment_leaves_all_that_it_published(
    world: Path, program: Program, shared: SharedCount, started: Started
) -> None:
    chance = random.Random(3)
    for turn in range(6):
        folder = world / f"killed-{turn}"
        shared.reset()
        run = started(run_words(folder, PYTHON, program(COUNTING), shared.path, "100000000"))
        wait_until(lambda: shared.read() > 100, "the job counts")
        time.sleep(chance.random() * 0.5)
        os.kill(job_pid(run.pid), signal.SIGKILL)
        assert run.wait(30) == -signal.SIGKILL
        published = shared.read()
        steps = steps_of(folder)
        gaps = int(Recording.open(folder).detail("gaps")["count"].sum())
        assert len(steps) == len(set(steps))
        assert len(steps) + gaps >= published - 1
    end_agent(world / "run")


def job_pid(run: int) -> int:
    """The child of `run` that is not the agent."""
    children = Path(f"/proc/{run}/task/{run}/children").read_text().split()
    return next(
        int(pid)
        for pid in children
        if b"pilotlight" not in Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")[2]
    )


def test_an_agent_killed_in_the_middle_of_a_job_loses_nothing_and_doubles_nothing(
    world: Path, program: Program, shared: SharedCount, started: Started
) -> None:
    steps = 12_000
    # Slow enough for a ring to hold what comes while no agent is there.
    slow = COUNTING.replace("sum(range(20_000))", "time.sleep(0.05)").replace(
        "mmap,", "mmap, time,"
    )
    folder = world / "taken-over"
    run = started(run_words(folder, PYTHON, program(slow), shared.path, str(steps)))
    place = Runtime(world / "run")
    for mark in (2_000, 6_000):
        wait_until(lambda mark=mark: shared.read() > mark, "the job counts")
        pid = agent_pid(place)
        assert pid
        os.kill(pid, signal.SIGKILL)
        wait_until(lambda pid=pid: agent_pid(place) not in (pid, None), "run starts the next agent")
    assert run.wait(60) == 0
    assert len(Recording.open(folder).manifest.agent.restarts) == 2
    found = steps_of(folder)
    lost = int(Recording.open(folder).detail("gaps")["count"].sum())
    assert len(found) == len(set(found)), "doubled"
    assert len(found) + lost >= steps - 1
    assert lost == 0


def test_five_hundred_processes_at_once(job: RunJob, program: Program) -> None:
    done = job(
        PYTHON,
        program(
            "import os, pilotlight\n"
            "read, write = os.pipe()\n"
            "for i in range(500):\n"
            "    if os.fork() == 0:\n"
            "        os.close(write)\n"
            "        with pilotlight.annotate('alive'): os.read(read, 1)\n"
            "        os._exit(0)\n"
            "os.close(write)\n"
            "for _ in range(500): os.wait()\n"
        ),
        timeout=200,
    )
    assert done.code == 0, done.err
    assert len(done.processes) == 501
    assert Counter(done.names("spans"))["alive"] == 500


def test_a_job_killed_for_its_memory_is_read_back(job: RunJob, program: Program) -> None:
    root = Path("/sys/fs/cgroup")
    is_v2 = (root / "cgroup.controllers").exists()
    group = root / "pilotlight-test" if is_v2 else root / "memory" / "pilotlight-test"
    try:
        group.mkdir()
        limit = group / ("memory.max" if is_v2 else "memory.limit_in_bytes")
        limit.write_text(str(200 << 20))
    except OSError as error:
        pytest.skip(f"no memory cgroup can be made here: {error}")
    try:
        done = job(
            PYTHON,
            program(
                "import os, pilotlight\n"
                f"open({str(group / 'cgroup.procs')!r}, 'w').write(str(os.getpid()))\n"
                "with pilotlight.annotate('hungry'): pass\n"
                "hoard = [bytearray(os.urandom(1 << 20)) for _ in range(1000)]\n"
            ),
        )
        assert done.code == -signal.SIGKILL
        assert "hungry" in done.names("spans")
    finally:
        group.rmdir()
