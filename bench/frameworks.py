"""What the default adapters cost a step of PyTorch and JAX, and what they add to an import.

One process trains in turns of about 100 ms, with everything on and with everything off, in an
order that is drawn anew for every round. On is what `pilotlight run` gives: stacks at 100 Hz,
steps, phases, modules, collectives. Off is a paused probe with the adapter taken out: the framework
as it came. Each turn says the CPU time of all threads of the process, the probe's own included, and
that of the thread that trains, which has the adapter's share alone. torch.profiler takes its turns
in the same run, without its post-processing.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from bars import Bar, at_most, median_ratio, report
from startup import added_ms

import capture
from overhead import agent, environment

# The program says work() and, if it has a profiler to compare with, profiled().
TURNS = """
import contextlib, json, os, random, sys, time
random.seed(0)  # the same for all ranks
from pilotlight.client import Client
from pilotlight.probe.adapters import adapter
client, job = Client(), os.environ["PILOTLIGHT_JOB"]
def control(action):
    client.ask("control", job=job, action=action)
    time.sleep(0.03)
def on():
    install(adapter(NAME), FRAMEWORK)
    control("resume")
def off():
    adapter(NAME).remove()
    control("pause")
def turn(context=contextlib.nullcontext):
    with context():
        start, alone = time.process_time(), time.thread_time()
        work()
        return time.process_time() - start, time.thread_time() - alone
off(); work(); on(); work()
pairs = {"on": [], "off": [], "again": [], "profiled": [], "on alone": [], "off alone": []}
for pair in range(int(sys.argv[1])):
    order = [(on, "on"), (off, "off"), (off, "again")]
    random.shuffle(order)
    for switch, name in order:
        switch()
        # Python finds its short cuts again after a patch; a job is patched once.
        warm()
        whole, alone = turn()
        pairs[name].append(whole)
        if name != "again":
            pairs[f"{name} alone"].append(alone)
    if PROFILED is not None and pair % 4 == 0:
        off()
        pairs["profiled"].append(turn(PROFILED)[0])
assert not adapter(NAME).faults, adapter(NAME).last_fault
print(json.dumps(pairs))
"""

TORCH = """
import torch
from pilotlight.probe.torch import install
NAME, FRAMEWORK, PROFILED = "torch", torch, None
torch.set_num_threads(1)
torch.manual_seed(0)
def network():
    return torch.nn.Sequential(torch.nn.Linear(64, 128), torch.nn.ReLU(), torch.nn.Linear(128, 10))
data = torch.utils.data.TensorDataset(torch.randn(32 * 200, 64), torch.randint(0, 10, (32 * 200,)))
cost = torch.nn.CrossEntropyLoss()
def epoch(model, optimizer, batches):
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
batches = [(data[i * 32:(i + 1) * 32]) for i in range(50)]
def warm(): epoch(model, optimizer, batches)
def work(): epoch(model, optimizer, 5 * batches)
def PROFILED():
    return torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU])
"""
)

# Four ranks on one machine; all take their turns together, each says its own CPU time.
DDP = (
    TORCH
    + """
import torch.distributed as dist
dist.init_process_group("gloo")
model = torch.nn.parallel.DistributedDataParallel(network())
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
batches = [(data[i * 32:(i + 1) * 32]) for i in range(20)]
def work():
    dist.barrier()
    epoch(model, optimizer, batches)
warm = work
"""
)

JAX = """
import jax
import jax.numpy as jnp
from pilotlight.probe.jax import install
NAME, FRAMEWORK, PROFILED = "jax", jax, None
def loss(w, x, y):
    hidden = jnp.maximum(x @ w[0], 0)
    return ((hidden @ w[1] - y) ** 2).mean()
key = jax.random.PRNGKey(0)
w = [jax.random.normal(key, (64, 256)), jax.random.normal(key, (256, 10))]
x, y = jax.random.normal(key, (256, 64)), jnp.zeros((256, 10))
def update(w, x, y):
    return [a - 1e-4 * g for a, g in zip(w, jax.grad(loss)(w, x, y))]
# Made while the adapter is out, and again while it is in: a jitted function keeps what made it.
from pilotlight.probe.adapters import adapter
adapter("jax").remove()
plain = jax.jit(update)
install(adapter("jax"), jax)
watched = jax.jit(update)
def work(steps=600):
    global w
    step = watched if hasattr(jax.jit, "__pilotlight__") else plain
    for _ in range(steps): w = step(w, x, y)
    jax.block_until_ready(w)
def warm(): work(100)
"""


def turns(
    program: str, env: dict[str, str], pairs: int, launcher: list[str]
) -> dict[str, list[float]]:
    """The turns of one process, or of all ranks added up turn by turn."""
    with tempfile.TemporaryDirectory(prefix="pl-") as folder:
        script = Path(folder, "turns.py")
        script.write_text(program + TURNS)
        done = subprocess.run(
            [*launcher, str(script), str(pairs)],
            env=env,
            capture_output=True,
            text=True,
        )
    said = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    if done.returncode != 0 or not said:
        raise SystemExit(f"the program failed:\n{done.stderr[-2000:]}")
    return {
        key: [sum(values) for values in zip(*(each[key] for each in said), strict=True)]
        for key in said[0]
    }


def has(module: str) -> bool:
    words = [sys.executable, "-c", f"import {module}"]
    return subprocess.run(words, stderr=subprocess.DEVNULL).returncode == 0


def interval(numerators: list[float], denominators: list[float]) -> str:
    """The median of the ratios, and between which it lies in 95 of 100 draws from them."""
    ratios = [a / b for a, b in zip(numerators, denominators, strict=True)]
    draw = random.Random(0)
    medians = sorted(statistics.median(draw.choices(ratios, k=len(ratios))) for _ in range(1000))
    return f"{statistics.median(ratios):.4f} ({medians[25]:.4f} to {medians[975]:.4f})"


def said(name: str, times: dict[str, list[float]]) -> float:
    ratio = median_ratio(times["on"], times["off"])
    shown = {"on / off": ("on", "off"), "off / off": ("again", "off"),
             "on / off, the training thread": ("on alone", "off alone")}  # fmt: skip
    print(f"{name}: ", end="")
    print(
        "; ".join(f"{what} {interval(times[a], times[b])}" for what, (a, b) in shown.items()),
        end="",
    )
    if times["profiled"]:
        some = times["off"][::4]
        print(f"; torch.profiler / off {median_ratio(times['profiled'], some):.3f}", end="")
    print(flush=True)
    return ratio


def bars(pairs: int) -> list[Bar]:
    one = [sys.executable]
    torchrun = [sys.executable, "-m", "torch.distributed.run", "--standalone",
                "--nproc-per-node=4"]  # fmt: skip
    mlp = ddp = jax = None
    with tempfile.TemporaryDirectory(prefix="pl-") as folder:
        env = environment(folder)
        job = {**env, "PILOTLIGHT": "1", "PILOTLIGHT_JOB": "bench"}
        with agent(env):
            if has("torch"):
                mlp = said("PyTorch MLP", turns(MLP, job, pairs, one))
                ddp = said("PyTorch DDP, 4 ranks", turns(DDP, job, pairs // 3, torchrun))
            if has("jax"):
                jax = said("JAX", turns(JAX, job, pairs, one))
    return [
        at_most("CPU time of a small-op PyTorch step, on / off", mlp, 1.01),
        at_most("CPU time of a 4-rank gloo DDP step, on / off", ddp, 1.01),
        at_most("CPU time of a small JAX step, on / off", jax, 1.01),
        at_most("ms of CPU time added where no framework is imported", added_ms(40), 5),
    ]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--pairs", type=int, default=100)
    args = parser.parse_args()
    os.environ.pop("PILOTLIGHT", None)
    found = [*bars(args.pairs), *capture.bars(repeats=3)]
    return report("frameworks", found, as_json=args.json)


if __name__ == "__main__":
    sys.exit(main())
