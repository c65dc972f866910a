"""Ends while it is sampled as fast as possible: the interpreter is torn down under the sampler."""

from __future__ import annotations

import sys
import threading
import time

sys.path.insert(0, sys.argv[1])
import sampler_harness


def spin():
    while True:
        sum(range(100))


class Late:
    def __del__(self):
        end = time.monotonic() + 0.05
        while time.monotonic() < end:
            sum(range(10))


for _ in range(3):
    threading.Thread(target=spin, daemon=True).start()
late = Late()
sampler_harness.start(0)
time.sleep(0.1)
print("ends", flush=True)
