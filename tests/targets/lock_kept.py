"""A thread that runs and one that sleeps while it keeps the interpreter lock: prints their states.

A turn of each after the other, so that whoever ran a moment ago is met asleep.
"""

from __future__ import annotations

import ctypes
import json
import sys
import time

sys.path.insert(0, sys.argv[1])
import sampler_harness

# Functions of a PyDLL are called with the lock.
usleep = ctypes.PyDLL(None).usleep


def runs() -> None:
    end = time.thread_time() + 0.1
    while time.thread_time() < end:
        pass


def sleeps() -> None:
    usleep(100_000)


sampler_harness.start(2000)
for _ in range(5):
    runs()
    sleeps()
result = sampler_harness.stop()
states: dict[str, dict[int, int]] = {"runs": {}, "sleeps": {}}
for _tid, state, _flags, _count, weight_ns, frames in result["samples"]:
    name = frames[-1][0] if frames else ""
    if name in states:
        states[name][state] = states[name].get(state, 0) + weight_ns
print(json.dumps(states))
