"""Makes functions, runs each once and drops it: their code objects come to lie where others were.

Function outer_N calls inner_N of file <made N> and nothing else, so each stack can be checked by
its own names.
"""

from __future__ import annotations

import json
import sys
import time

sys.path.insert(0, sys.argv[1])
import sampler_harness

SOURCE = """
def inner_{n}(until):
    while clock() < until: pass
def outer_{n}(until):
    inner_{n}(until)
"""


def run(number: int) -> None:
    names = {"clock": time.perf_counter}
    exec(compile(SOURCE.format(n=number), f"<made {number}>", "exec"), names)
    names[f"outer_{number}"](time.perf_counter() + 0.0002)


sampler_harness.start(50)
end = time.monotonic() + float(sys.argv[2])
made = 0
while time.monotonic() < end:
    made += 1
    run(1000 + made % 9000)
result = sampler_harness.stop()
samples = 0
wrong = []
for row in result["samples"]:
    frames = [(frame[0], frame[1]) for frame in row[5] if frame[1].startswith("<made ")]
    if not frames:
        continue
    samples += row[3]
    number = frames[0][1][6:-1]
    possible = (
        [("<module>", f"<made {number}>")],
        [
            (f"outer_{number}", f"<made {number}>"),
            (f"inner_{number}", f"<made {number}>"),
        ],
    )
    if frames not in (possible[0], possible[1][:1], possible[1]):
        wrong.append(frames)
print(json.dumps({"made": made, "samples": samples, "wrong": wrong, "torn": result["torn"]}))
