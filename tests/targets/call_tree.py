"""Calls and returns as fast as it can in a tree that is known: prints every stack that was seen.

The functions have frames of the same size and run a few bytecodes each, so that a walk that mixes
two moments gives a stack that looks sound but cannot exist: b never calls g, c never calls f.
"""

from __future__ import annotations

import collections
import json
import sys
import threading
import time

sys.path.insert(0, sys.argv[1])
import sampler_harness

PATHS = [
    ("b", "f"),
    ("c", "g"),
    ("d1", "e1", "f"),
    ("d2", "e2", "g"),
    ("pb", "shared", "f"),
    ("pc", "shared", "g"),
    ("numbers", "f"),
    ("letters", "g"),
]


def f():
    pass


def g():
    pass


def b():
    f()


def c():
    g()


def d1():
    e1()


def d2():
    e2()


def e1():
    f()


def e2():
    g()


def shared(callee):
    callee()


def pb():
    shared(f)


def pc():
    shared(g)


def numbers():
    f()
    yield 1


def letters():
    g()
    yield "a"


def work():
    while not stopping:
        b()
        c()
        d1()
        d2()
        pb()
        pc()
        for _ in numbers():
            pass
        for _ in letters():
            pass


stopping = False
threads = [threading.Thread(target=work) for _ in range(int(sys.argv[3]))]
for thread in threads:
    thread.start()
sampler_harness.start(100)
time.sleep(float(sys.argv[2]))
result = sampler_harness.stop()
stopping = True
for thread in threads:
    thread.join()

possible = {path[:length] for path in PATHS for length in range(len(path) + 1)}
roots: collections.Counter[str] = collections.Counter()
wrong: collections.Counter[str] = collections.Counter()
samples = 0
for _tid, _state, _flags, count, _weight_ns, frames in result["samples"]:
    names = tuple(frame[0] for frame in frames)
    if "work" not in names:
        continue
    samples += count
    roots["/".join(names[: names.index("work")])] += count
    leaf = names[names.index("work") + 1 :]
    if leaf not in possible:
        wrong["/".join(leaf)] += count
print(
    json.dumps({"samples": samples, "wrong": wrong, "roots": list(roots), "torn": result["torn"]})
)
