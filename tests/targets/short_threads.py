"""Starts and ends threads all the time while it is sampled: prints the files that were seen, and
the functions that the main thread's stacks begin with."""

from __future__ import annotations

import json
import sys
import threading
import time

sys.path.insert(0, sys.argv[1])
import sampler_harness


def short():
    return sum(range(50))


sampler_harness.start(50)
end = time.monotonic() + float(sys.argv[2])
started = 0
while time.monotonic() < end:
    threads = [threading.Thread(target=short) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    started += len(threads)
result = sampler_harness.stop()
main = threading.main_thread().native_id
roots = sorted({row[5][0][0] for row in result["samples"] if row[0] == main})
files = sorted({frame[1] for row in result["samples"] for frame in row[5]})
print(
    json.dumps(
        {
            "started": started,
            "taken": result["taken"],
            "torn": result["torn"],
            "files": files,
            "roots": roots,
        }
    )
)
