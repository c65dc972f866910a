"""What the default adapters cost a step of PyTorch and JAX, and what they add to an import.

On is what `pilotlight run` gives: stacks at 100 Hz, steps, phases, modules, collectives. Off is a
process without any of it. Both, and a second that is off, take turns of a few steps: players.py.
Each turn says the CPU time of all threads of a process, the probe's own included, and that of the
thread that trains, which has the adapter's share alone. torch.profiler plays with one that is off,
without its post-processing.

The bar of the small PyTorch step is for one of about 400 µs, so the batch is chosen such that it
takes that on the machine at hand; the step with the smallest batch is measured and shown as well.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence

from bars import Bar, at_most, report
from players import Player, interval, play, ratio, total_ratio
from startup import added_ms

import capture
from overhead import agent, environment, said

TORCH = """
import torch
torch.set_num_threads(1)
torch.manual_seed(0)
def network():
    return torch.nn.Sequential(torch.nn.Linear(64, 128), torch.nn.ReLU(), torch.nn.Linear(128, 10))
batches = [(torch.randn(BATCH, 64), torch.randint(0, 10, (BATCH,))) for _ in range(50)]
cost = torch.nn.CrossEntropyLoss()
def epoch(batches):
    for x, y in batches:
        optimizer.zero_grad()
        cost(model(x), y).backward()
        optimizer.step()
"""

MLP = (
    TORCH
    + """
model = network()
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
epoch(10 * batches)
def warm(): epoch(batches[:2])
def work(): epoch(batches[:5])
"""
)

TIMED = (
    MLP
    + """
import statistics, time
def turn():
    start = time.process_time_ns()
    work()
    return (time.process_time_ns() - start) / 5000
print(statistics.median(turn() for _ in range(200)))
"""
)

PROFILED = (
    MLP
    + """
profiler = None
def warm():
    global profiler
    if profiler is not None: profiler.stop()
    profiler = torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU])
    profiler.start()
    epoch(batches[:2])
"""
)

DDP = (
    TORCH
    + """
import torch.distributed as dist
dist.init_process_group("gloo")
model = torch.nn.parallel.DistributedDataParallel(network())
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
epoch(4 * batches)
def warm(): epoch(batches[:2])
def work(): epoch(batches[:5])
"""
)

JAX = """
import jax
import jax.numpy as jnp
def loss(w, x, y):
    hidden = jnp.maximum(x @ w[0], 0)
    return ((hidden @ w[1] - y) ** 2).mean()
key = jax.random.PRNGKey(0)
w = [jax.random.normal(key, (64, 256)), jax.random.normal(key, (256, 10))]
x, y = jax.random.normal(key, (256, 64)), jnp.zeros((256, 10))
@jax.jit
def update(w, x, y):
    return [a - 1e-4 * g for a, g in zip(w, jax.grad(loss)(w, x, y))]
def steps(count):
    global w
    for _ in range(count): w = update(w, x, y)
    jax.block_until_ready(w)
steps(600)
def warm(): steps(4)
def work(): steps(12)
"""


PARTS = ("mlp", "ddp", "jax", "start", "capture")
SMALLEST, STEP_US = 32, 400


def with_batch(batch: int, program: str) -> str:
    return f"BATCH = {batch}\n{program}"


def fitting_batch(env: dict[str, str]) -> int:
    """The batch whose step takes nearest to 400 µs without a probe."""
    step_us = {
        batch: float(said(with_batch(batch, TIMED), env)) for batch in range(SMALLEST, 257, 32)
    }
    batch = min(step_us, key=lambda batch: abs(step_us[batch] - STEP_US))
    print(f"batch {batch}: a step takes {step_us[batch]:.0f} µs; "
          f"batch {SMALLEST}: {step_us[SMALLEST]:.0f} µs")  # fmt: skip
    return batch


def has(module: str) -> bool:
    words = [sys.executable, "-c", f"import {module}"]
    return subprocess.run(words, stderr=subprocess.DEVNULL).returncode == 0


def cost(name: str, program: str, off: dict[str, str], rounds: int, ranks: int = 1) -> float:
    on = {**off, "PILOTLIGHT": "1", "PILOTLIGHT_JOB": "bench"}
    players = [Player("on", program, on), Player("off", program, off),
               Player("again", program, off)]  # fmt: skip
    casts = 4 if ranks == 1 else 2
    turns = play(players, _launcher(ranks), ranks, casts, rounds // casts)
    for by in (ratio, total_ratio):
        print(f"{name}, {by.__doc__}")
        for what, a, b in (
            ("on / both off", turns.whole["on"], _mean(turns.whole)),
            ("off / off", turns.whole["again"], turns.whole["off"]),
            ("on / both off, the training thread", turns.alone["on"], _mean(turns.alone)),
        ):
            print(f"  {what}: {interval(by, a, b)}", flush=True)
    return ratio(turns.whole["on"], _mean(turns.whole))


def _mean(turns: dict[str, list[int]]) -> list[float]:
    """Of the two that are off: where a process lies in memory makes a difference of its own."""
    return [(a + b) / 2 for a, b in zip(turns["off"], turns["again"], strict=True)]


def _launcher(ranks: int) -> list[str]:
    torchrun = ["-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={ranks}"]
    return [sys.executable] if ranks == 1 else [sys.executable, *torchrun]


def profiler(off: dict[str, str], batch: int) -> None:
    players = [Player("profiled", with_batch(batch, PROFILED), off),
               Player("off", with_batch(batch, MLP), off)]  # fmt: skip
    turns = play(players, _launcher(1), 1, 1, 60)
    print(f"torch.profiler / off {interval(ratio, turns.whole['profiled'], turns.whole['off'])}")


def bars(rounds: int, parts: Sequence[str]) -> list[Bar]:
    mlp = ddp = jax = None
    with tempfile.TemporaryDirectory(prefix="pl-") as folder:
        env = environment(folder)
        with agent(env):
            if "mlp" in parts and has("torch"):
                batch = fitting_batch(env)
                mlp = cost(f"PyTorch MLP, batch {batch}", with_batch(batch, MLP), env, rounds)
                if batch != SMALLEST:
                    smallest = with_batch(SMALLEST, MLP)
                    cost(f"PyTorch MLP, batch {SMALLEST}", smallest, env, rounds)
                profiler(env, batch)
            if "ddp" in parts and has("torch"):
                ddp = cost("PyTorch DDP, 4 ranks", with_batch(SMALLEST, DDP), env, rounds // 3,
                           ranks=4)  # fmt: skip
            if "jax" in parts and has("jax"):
                jax = cost("JAX", JAX, env, rounds)
    return [
        at_most("CPU time of a small-op PyTorch step, on / off", mlp, 1.01),
        at_most("CPU time of a 4-rank gloo DDP step, on / off", ddp, 1.01),
        at_most("CPU time of a small JAX step, on / off", jax, 1.01),
        at_most(
            "ms of CPU time added where no framework is imported",
            added_ms(40) if "start" in parts else None,
            5,
        ),
    ]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--rounds", type=int, default=2400)
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=PARTS)
    args = parser.parse_args()
    os.environ.pop("PILOTLIGHT", None)
    captured = capture.bars(repeats=3) if "capture" in args.parts else []
    found = [*bars(args.rounds, args.parts), *captured]
    return report("frameworks", found, as_json=args.json)


if __name__ == "__main__":
    sys.exit(main())
