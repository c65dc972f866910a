"""A loop of a few hundred nanoseconds, about as long as one look at a thread: prints what was seen.

`first` only calls `one`, `second` only `other`; their frames lie in the same place, so that what is
left of a returned call looks like one of the next.
"""

from __future__ import annotations

import collections
import json
import sys
import threading
import time

sys.path.insert(0, sys.argv[1])
import sampler_harness

POSSIBLE = {(), ("first",), ("second",), ("first", "one"), ("second", "other")}


def one():
    pass


def other():
    pass


def first():
    one()


def second():
    other()


def work():
    while not stopping:
        first()
        second()
        first()
        second()


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

wrong: collections.Counter[str] = collections.Counter()
samples = 0
for _tid, _state, _flags, count, _weight_ns, frames in result["samples"]:
    names = tuple(frame[0] for frame in frames)
    if "work" not in names:
        continue
    samples += count
    above = names[names.index("work") + 1 :]
    if above not in POSSIBLE:
        wrong["/".join(above)] += count
print(json.dumps({"samples": samples, "wrong": wrong, "torn": result["torn"]}))
