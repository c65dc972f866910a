"""More threads than the sampler has room for, and a main thread that runs: prints how many were
seen, and how often the main thread was."""

from __future__ import annotations

import json
import sys
import threading
import time

sys.path.insert(0, sys.argv[1])
import sampler_harness

threading.stack_size(256 * 1024)
done = threading.Event()
threads = [threading.Thread(target=done.wait) for _ in range(int(sys.argv[2]))]
for thread in threads:
    thread.start()
sampler_harness.start(20_000)
end = time.monotonic() + 1
while time.monotonic() < end:
    pass
result = sampler_harness.stop()
done.set()
for thread in threads:
    thread.join()
main = threading.main_thread().native_id
print(
    json.dumps(
        {
            "threads": len({row[0] for row in result["samples"]}),
            "main": sum(row[3] for row in result["samples"] if row[0] == main),
        }
    )
)
