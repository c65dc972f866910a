"""Threads that stand still in stacks that are known: prints what was seen and what Python says."""

from __future__ import annotations

import asyncio
import json
import sys
import threading
import time
import traceback

sys.path.insert(0, sys.argv[1])
import sampler_harness

done = threading.Event()


class Größe:
    def 測る(self, depth: int) -> None:
        if depth:
            self.測る(depth - 1)
        else:
            done.wait()


def numbers():
    done.wait()
    yield 1


def through_a_generator():
    return sum(x for x in numbers())


async def inner():
    done.wait()


async def outer():
    await inner()


def through_c():
    return sorted([2, 1], key=lambda value: done.wait())


class Made:
    def __init__(self):
        done.wait()


TARGETS = {
    "method": lambda: Größe().測る(5),
    "generator": through_a_generator,
    "coroutine": lambda: asyncio.run(outer()),
    "c": through_c,
    "init": Made,
    "deep": lambda: Größe().測る(700),
}
threads = {name: threading.Thread(target=target) for name, target in TARGETS.items()}
sys.setrecursionlimit(5000)
for thread in threads.values():
    thread.start()
started = time.monotonic()
while any(
    "wait" not in str(traceback.extract_stack(sys._current_frames()[t.ident])[-1].name)
    for t in threads.values()
):
    time.sleep(0.01)
said = {
    name: [
        (code.f_code.co_name, code.f_code.co_filename, line)
        for code, line in traceback.walk_stack(sys._current_frames()[thread.ident])
    ][::-1]
    for name, thread in threads.items()
}
sampling = time.monotonic_ns()
sampler_harness.start(1000)
time.sleep(float(sys.argv[2]))
result = sampler_harness.stop()
elapsed_ns = time.monotonic_ns() - sampling
done.set()
for thread in threads.values():
    thread.join()
seen = {
    name: [
        {"state": state, "flags": flags, "count": count, "weight_ns": weight_ns, "frames": frames}
        for tid, state, flags, count, weight_ns, frames in result["samples"]
        if tid == thread.native_id
    ]
    for name, thread in threads.items()
}
named = [name for name, thread in threads.items() if thread.native_id in result["names"]]
print(
    json.dumps(
        {
            "seen": seen,
            "said": said,
            "named": named,
            "elapsed_ns": elapsed_ns,
            "torn": result["torn"],
        }
    )
)
