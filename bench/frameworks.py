"""What the default adapters cost a step of PyTorch and JAX, and what they add to an import.

One process trains in turns, with everything on and with everything off. On is what `pilotlight run`
gives: stacks at 100 Hz, steps, phases, modules, collectives. Off is a paused probe with the adapter
taken out: the framework as it came. Each turn says the CPU time of all threads of the process, the
probe's own included. torch.profiler takes its turns in the same run, without its post-processing.
"""

from __future__ import annotations

import argparse
import json
import os
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
import contextlib, json, os, sys, time
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
        start = time.process_time()
        work()
        return time.process_time() - start
off(); work(); on(); work()
pairs = {"on": [], "off": [], "again": [], "profiled": []}
for pair in range(int(sys.argv[1])):
    order = [(on, "on"), (off, "off"), (off, "again")]
    for switch, name in order if pair % 2 else order[::-1]:
        switch()
        # Python finds its short cuts again after a patch; a job is patched once.
        turn()
        pairs[name].append(turn())
    if PROFILED is not None and pair % 4 == 0:
        off()
        pairs["profiled"].append(turn(PROFILED))
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
def work(): epoch(model, optimizer, batches)
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
def work():
    global w
    step = watched if hasattr(jax.jit, "__pilotlight__") else plain
    for _ in range(200): w = step(w, x, y)
    jax.block_until_ready(w)
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


def said(name: str, times: dict[str, list[float]]) -> float:
    ratio = median_ratio(times["on"], times["off"])
    noise = median_ratio(times["again"], times["off"])
    print(f"{name}: on / off {ratio:.4f}; off / off {noise:.4f}", end="")
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
