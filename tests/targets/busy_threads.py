"""Five threads (the main one too) that compute under 25 frames each, for a number of seconds."""

from __future__ import annotations

import sys
import threading
import time

DEPTH = 20
SOURCE = "\n".join(f"def f{i}(end):\n    f{i + 1}(end)" for i in range(DEPTH))


def compute(end: float) -> None:
    total = 0
    while time.monotonic() < end:
        for i in range(2000):
            total += i * i


names = {f"f{DEPTH}": compute}
exec(compile(SOURCE, "busy_threads_made.py", "exec"), names)
end = time.monotonic() + float(sys.argv[1])
threads = [threading.Thread(target=names["f0"], args=(end,)) for _ in range(4)]
for thread in threads:
    thread.start()
names["f0"](end)
