"""What the default set costs a job, and what it takes in memory.

One process does the same work over and over while its recording is switched on and off in turn, as
`pilotlight overhead` does it; each turn says the CPU time of all its threads, the probe's own
included. Off is a paused probe, not an absent one: whole runs with and without it differ by more
than the cost on a shared machine. The agent runs beside and is measured for itself.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from bars import Bar, at_most, median_ratio, report

MEGABYTE = 1 << 20

# Switches its own recording; prints the CPU seconds of each turn: on, off, and off again. Turns are
# short, since what the neighbours of a shared machine do changes within tenths of a second.
TURNS = """
import json, os, random, sys, time
from pilotlight.client import Client
client, job = Client(), os.environ["PILOTLIGHT_JOB"]
def turn(action):
    client.ask("control", job=job, action=action)
    time.sleep(0.012)
    start = time.process_time()
    work()
    return time.process_time() - start
work()
turns = [("resume", []), ("pause", []), ("pause", [])]
for _ in range(int(sys.argv[1])):
    for action, seconds in random.sample(turns, 3): seconds.append(turn(action))
print(json.dumps([seconds for _, seconds in turns]))
"""

LOOP = """
def leaf(n):
    total = 0
    for i in range(n): total += i ^ (total >> 3)
    return total
def middle(n): return [leaf(50) for _ in range(n)]
def work():
    for _ in range(4): middle(3000)
"""

TRAINING = """
import numpy as np
chance = np.random.default_rng(0)
x, y = chance.normal(size=(128, 256)), chance.normal(size=(128, 1))
w1, w2 = chance.normal(size=(256, 256)) / 16, chance.normal(size=(256, 1)) / 16
def step():
    global w1, w2
    hidden = np.maximum(x @ w1, 0)
    error = hidden @ w2 - y
    w1 -= 1e-5 * (x.T @ ((error @ w2.T) * (hidden > 0)))
    w2 -= 1e-5 * (hidden.T @ error)
def work():
    for _ in range(20): step()
"""

# Says its own segment's touched pages and the growth of its heap, after a second of sampling.
MEMORY = """
import re, subprocess, sys, time, threading
def value(text, key): return sum(int(n) for n in re.findall(key + r":\\s+(\\d+) kB", text))
def private(): return value(open("/proc/self/smaps").read(), "Private_(?:Clean|Dirty)")
import pilotlight.probe.activate as activation
import pilotlight
before = private()
activation.activate()
def deep(n):
    if n: deep(n - 1)
    else: time.sleep(0.001)
end = time.monotonic() + 2
while time.monotonic() < end:
    with pilotlight.annotate("range"): deep(25)
print((private() - before) * 1024)
"""


def environment(folder: str) -> dict[str, str]:
    kept = {key: value for key, value in os.environ.items() if not key.startswith("PILOTLIGHT")}
    threads = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
    places = {
        "PILOTLIGHT_RUNTIME_DIR": f"{folder}/run",
        "PILOTLIGHT_DATA_DIR": f"{folder}/data",
    }
    return {**kept, **threads, **places}


@contextmanager
def agent(env: dict[str, str]) -> Iterator[int]:
    process = subprocess.Popen([sys.executable, "-m", "pilotlight", "agent"], env=env)
    try:
        while not Path(env["PILOTLIGHT_RUNTIME_DIR"], "client.sock").exists():
            time.sleep(0.02)
        yield process.pid
    finally:
        process.terminate()
        process.wait()


def said(program: str, env: dict[str, str], *arguments: str) -> str:
    words = [sys.executable, "-c", program, *arguments]
    return subprocess.run(words, env=env, stdout=subprocess.PIPE, text=True, check=True).stdout


def cost(name: str, work: str, env: dict[str, str], turns: int) -> float:
    recorded = {**env, "PILOTLIGHT": "1", "PILOTLIGHT_JOB": "bench"}
    on, off, again = json.loads(said(work + TURNS, recorded, str(turns)))
    print(f"{name}: {interval(on, off)}; of two that are both paused: {interval(again, off)}")
    return median_ratio(on, off)


def interval(a: list[float], b: list[float]) -> str:
    """The 95 % interval of the median ratio: order statistics, which assume nothing."""
    ratios = sorted(x / y for x, y in zip(a, b, strict=True))
    middle, half = len(ratios) / 2, 0.98 * len(ratios) ** 0.5
    low, high = ratios[max(0, int(middle - half))], ratios[min(len(ratios) - 1, int(middle + half))]
    return f"{low:.3f} to {high:.3f}"


def rss_bytes(pid: int) -> int:
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGESIZE")


def bars(turns: int) -> list[Bar]:
    with tempfile.TemporaryDirectory(prefix="pl-") as folder:
        env = environment(folder)
        with agent(env) as pid:
            loop = cost("loop", LOOP, env, turns)
            training = cost("training", TRAINING, env, turns)
            probe = float(said(MEMORY, {**env, "PILOTLIGHT": "0"}))
            rss = rss_bytes(pid)
    return [
        at_most("CPU time of a pure-Python loop, on / paused", loop, 1.01),
        at_most("CPU time of numpy training, on / paused", training, 1.01),
        at_most("resident memory of the agent, MB", rss / MEGABYTE, 128),
        at_most("segment and heap of the probe, MB", probe / MEGABYTE, 32),
    ]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--turns", type=int, default=400, help="of each kind")
    args = parser.parse_args()
    return report("overhead", bars(args.turns), as_json=args.json)


if __name__ == "__main__":
    sys.exit(main())
