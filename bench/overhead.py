"""What the default set costs a job, and what it takes in memory.

Whole runs with and without the probe take turns; each says the CPU time of all its threads over a
fixed amount of work, the probe's own thread included. The agent runs beside them and is measured
for itself.
"""

from __future__ import annotations

import argparse
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

LOOP = """
import time
def leaf(n):
    total = 0
    for i in range(n): total += i ^ (total >> 3)
    return total
def middle(n): return [leaf(50) for _ in range(n)]
middle(2000)
start = time.process_time()
for _ in range(60): middle(3000)
print(time.process_time() - start)
"""

TRAINING = """
import time, numpy as np
chance = np.random.default_rng(0)
x, y = chance.normal(size=(128, 256)), chance.normal(size=(128, 1))
w1, w2 = chance.normal(size=(256, 256)) / 16, chance.normal(size=(256, 1)) / 16
def step():
    global w1, w2
    hidden = np.maximum(x @ w1, 0)
    error = hidden @ w2 - y
    w1 -= 1e-3 * (x.T @ ((error @ w2.T) * (hidden > 0)))
    w2 -= 1e-3 * (hidden.T @ error)
for _ in range(50): step()
start = time.process_time()
for _ in range(1500): step()
print(time.process_time() - start)
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


def said(program: str, env: dict[str, str]) -> float:
    words = [sys.executable, "-c", program]
    return float(subprocess.run(words, env=env, capture_output=True, text=True, check=True).stdout)


def cost(program: str, env: dict[str, str], pairs: int) -> float:
    on: list[float] = []
    off: list[float] = []
    said(program, env)
    for turn in range(pairs):
        order = ((on, {**env, "PILOTLIGHT": "1"}), (off, env))
        for seconds, chosen in order if turn % 2 else order[::-1]:
            seconds.append(said(program, chosen))
        print(f"\rpair {turn + 1} of {pairs}", end="", file=sys.stderr)
    print(file=sys.stderr)
    return median_ratio(on, off)


def rss_bytes(pid: int) -> int:
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGESIZE")


def bars(pairs: int) -> list[Bar]:
    with tempfile.TemporaryDirectory(prefix="pl-") as folder:
        env = environment(folder)
        with agent(env) as pid:
            loop = cost(LOOP, env, pairs)
            training = cost(TRAINING, env, pairs)
            probe = said(MEMORY, {**env, "PILOTLIGHT": "0"})
            rss = rss_bytes(pid)
    return [
        at_most("CPU time of a pure-Python loop, on / off", loop, 1.01),
        at_most("CPU time of numpy training, on / off", training, 1.01),
        at_most("resident memory of the agent, MB", rss / MEGABYTE, 128),
        at_most("segment and heap of the probe, MB", probe / MEGABYTE, 32),
    ]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--pairs", type=int, default=21)
    args = parser.parse_args()
    return report("overhead", bars(args.pairs), as_json=args.json)


if __name__ == "__main__":
    sys.exit(main())
