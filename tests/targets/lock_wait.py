"""Three threads that compete for the interpreter lock and one that sleeps: prints their states."""

from __future__ import annotations

import json
import sys
import threading
import time

sys.path.insert(0, sys.argv[1])
import sampler_harness


def spin(end: float) -> None:
    while time.monotonic() < end:
        pass


duration = float(sys.argv[2])
threads = [threading.Thread(target=spin, args=(time.monotonic() + duration,)) for _ in range(3)]
for thread in threads:
    thread.start()
sampler_harness.start(1000)
time.sleep(duration * 0.8)
result = sampler_harness.stop()
spinners = {thread.native_id for thread in threads}
states = {name: set() for name in ("spinners", "sleeper")}
for tid, state, *_rest in result["samples"]:
    states["spinners" if tid in spinners else "sleeper"].add(state)
print(json.dumps({name: sorted(seen) for name, seen in states.items()}))
