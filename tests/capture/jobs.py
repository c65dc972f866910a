"""Real jobs that run until they are told to stop."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from pilotlight.client import Client

TRAIN = """
import sys, time
import torch
import torch.distributed as dist

dist.init_process_group("gloo")
torch.set_num_threads(1)
model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(64, 64))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
def forgetful():
    while True:
        time.sleep(0.2)
def stubborn():
    import ctypes
    ctypes.PyDLL(None).sleep(1000)  # with the GIL
if "never" in sys.argv:
    print("ready" if dist.get_rank() == 0 else "", flush=True)
    if dist.get_rank() == 1:
        forgetful()
for step in range(1_000_000):
    with torch.profiler.record_function(f"user {step}"):
        optimizer.zero_grad()
        model(torch.randn(8, 64)).sum().backward()
        time.sleep(0.02)
        optimizer.step()
    if step == 20 and dist.get_rank() == 0:
        print("ready", flush=True)
    if step == 25 and dist.get_rank() == 1:
        if "hang" in sys.argv:
            forgetful()
        if "gil" in sys.argv:
            stubborn()
"""

ADVERSARIAL = """
import time
import torch
torch.set_num_threads(1)
maker, judge = torch.nn.Linear(8, 8), torch.nn.Linear(8, 1)
of_maker = torch.optim.Adam(maker.parameters())
of_judge = torch.optim.Adam(judge.parameters())
for number in range(1_000_000):
    with torch.profiler.record_function(f"user {number}"):
        for _ in range(3):
            of_judge.zero_grad()
            judge(maker(torch.randn(4, 8)).detach()).mean().backward()
            of_judge.step()
            time.sleep(0.005)
        of_maker.zero_grad()
        judge(maker(torch.randn(4, 8))).mean().backward()
        of_maker.step()
    if number == 20:
        print("ready", flush=True)
"""

EVALUATING = """
import time
import torch
torch.set_num_threads(1)
model = torch.nn.Linear(64, 64)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
def train(number):
    with torch.profiler.record_function(f"user {number}"):
        model(torch.randn(8, 64)).sum().backward()
        time.sleep(0.02)
        optimizer.step()
for number in range(30):
    train(number)
print("ready", flush=True)
end = time.monotonic() + 16
while time.monotonic() < end:
    with torch.no_grad():
        model(torch.randn(8, 64))
    time.sleep(0.02)
for number in range(30, 1_000_000):
    train(number)
"""

SPAWN = """
import os, time
import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch.utils.data import DataLoader

def main(rank, port):
    # What a program does that starts its ranks itself; its loader's workers inherit it.
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port))
    os.environ.update(RANK=str(rank), WORLD_SIZE="2")
    dist.init_process_group("gloo", rank=rank, world_size=2)
    torch.set_num_threads(1)
    model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(8, 8))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    data = torch.randn(1 << 20, 8)
    loader = DataLoader(data, 8, num_workers=1, multiprocessing_context="spawn")
    for step, batch in enumerate(loader):
        optimizer.zero_grad()
        model(batch).sum().backward()
        optimizer.step()
        time.sleep(0.02)
        if step == 20 and rank == 0:
            print("ready", flush=True)

if __name__ == "__main__":
    import socket
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    mp.spawn(main, (port,), nprocs=2)
"""

SINGLE = """
import time
import torch
torch.set_num_threads(1)
weight = torch.randn(64, 64)
print("ready", flush=True)
while True:
    (weight @ weight).sum().item()
    time.sleep(0.005)
"""

JAX = """
import sys
import time
import jax
import pilotlight
step = jax.jit(lambda x: (x @ x).sum())
x = jax.numpy.ones((32, 32))
for number in range(1_000_000):
    step(x).block_until_ready()
    time.sleep(0.01)
    pilotlight.step(number)
    if number == 20:
        print("ready", flush=True)
    while number > 25 and "hang" in sys.argv:
        time.sleep(0.2)
"""


class RunningJob:
    """`pilotlight run` of a program, until it is told to stop."""

    def __init__(self, folder: Path, name: str, program: str, *launcher: str) -> None:
        self.folder = folder
        self.name = name
        path = folder / f"{name}.py"
        path.write_text(program)
        self.process = subprocess.Popen(
            [sys.executable, "-m", "pilotlight", "run", "--name", name, "--"]
            + [word.replace("PROGRAM", str(path)) for word in launcher],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
            env={**os.environ, "OMP_NUM_THREADS": "1"},
        )
        self._wait_until_ready()

    def _wait_until_ready(self) -> None:
        assert self.process.stdout is not None
        said = ""
        for line in self.process.stdout:
            said += line
            if line == "ready\n":
                return
        raise AssertionError(said)

    def capture(self, *options: str, target: str | None = None) -> tuple[int, dict[str, Any], str]:
        """The exit code, the result, and what was said; the capture lies in `folder`/capture."""
        output = str(self.folder / "capture")
        verb = [sys.executable, "-m", "pilotlight", "capture", target or self.name]
        ended = subprocess.run(
            [*verb, "--json", "-o", output, *options],
            capture_output=True,
            text=True,
            timeout=120,
        )
        result = json.loads(ended.stdout) if ended.stdout else {}
        return ended.returncode, result, ended.stderr

    def capture_in_step(self, *options: str) -> tuple[int, dict[str, Any], str]:
        """As `capture`; again where the machine held a rank up for longer than a step, as told."""
        for _ in range(3):
            code, result, said = self.capture(*options)
            if result.get("same_steps"):
                break
            shutil.rmtree(self.folder / "capture", ignore_errors=True)
        return code, result, said

    def stop(self) -> str:
        os.killpg(self.process.pid, signal.SIGTERM)
        try:
            said, _ = self.process.communicate(timeout=20)
        except subprocess.TimeoutExpired:
            os.killpg(self.process.pid, signal.SIGKILL)
            said, _ = self.process.communicate(timeout=20)
        return said


def agent_pid() -> int:
    """Of the agent that runs in this test's world."""
    with Client() as client:
        return int(client.ask("status")["agent"]["pid"])


def left_in_tmp(agent: int) -> list[str]:
    """The folders of that agent: other tests' agents have theirs there too."""
    return [path.name for path in Path("/tmp").glob(f"pilotlight-capture-{agent}-*")]


def left_at_last(agent: int, seconds: float = 15) -> list[str]:
    """What is there when the agent has had time to end."""
    deadline = time.monotonic() + seconds
    while left_in_tmp(agent) and time.monotonic() < deadline:
        time.sleep(0.1)
    return left_in_tmp(agent)


def until_gone(path: Path, seconds: float = 10) -> bool:
    deadline = time.monotonic() + seconds
    while path.exists() and time.monotonic() < deadline:
        time.sleep(0.05)
    return not path.exists()
