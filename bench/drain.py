"""What the records of a job cost the agent: from ring to columns and sums.

First a C++ loop on full rings; then live, from a producer process, with the agent's own polling.
"""

from __future__ import annotations

import argparse
import importlib.util
import socket
import statistics
import subprocess
import sys
import time

from bars import Bar, at_most, report
from programs import program

RATE = 100_000
SECONDS = 10


def record_bars() -> list[Bar]:
    bench = program("drain_bench")
    assert bench is not None
    done = subprocess.run([bench], capture_output=True, text=True, check=True)
    each_ns = [float(line) for line in done.stdout.splitlines()]
    return [at_most("ns of CPU to drain and sum a record", statistics.median(each_ns), 20)]


def live_bars() -> list[Bar]:
    what = f"share of a core at {RATE // 1000} k records/s"
    if importlib.util.find_spec("pilotlight._drain") is None:
        return [at_most(what, None, 0.01)]
    bench = program("drain_bench")
    assert bench is not None
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with ours, theirs:
        producer = subprocess.Popen(
            [bench, str(RATE), str(theirs.fileno())], pass_fds=[theirs.fileno()]
        )
        try:
            _, descriptors, _, _ = socket.recv_fds(ours, 1, 1)
            return [at_most(what, drained_share(descriptors[0]), 0.01)]
        finally:
            producer.kill()
            producer.wait()


def drained_share(descriptor: int) -> float:
    """CPU time of this thread over wall time while it keeps up with the producer."""
    from pilotlight import _drain
    from pilotlight.agent.governor import PACES
    from pilotlight.agent.process import Process

    pace = PACES[0]
    start_ns = time.monotonic_ns()
    reader = _drain.Reader(descriptor, 0, 1)
    process = Process(reader, 0, {}, None, None, reader.pid, start_ns)
    process.poll(start_ns, pace)
    process.take(start_ns)
    process.committed()
    before, start_ns, start_cpu_ns = process.read, time.monotonic_ns(), time.thread_time_ns()
    now_ns = committed_ns = start_ns
    while now_ns - start_ns < SECONDS * 1_000_000_000:
        wait_ns = process.poll(now_ns, pace)
        if process.is_urgent or now_ns - committed_ns >= pace.commit_ns:
            process.take(now_ns)
            process.committed()
            committed_ns = now_ns
        time.sleep(wait_ns / 1e9)
        now_ns = time.monotonic_ns()
    cpu_ns, wall_ns = time.thread_time_ns() - start_cpu_ns, now_ns - start_ns
    read = process.read - before
    losses = reader.losses()
    print(f"read {read} in {wall_ns / 1e9:.1f} s, {cpu_ns / read:.1f} ns each; {losses}")
    if read < 0.9 * RATE * SECONDS:
        raise SystemExit("too few records were read to measure their cost")
    return cpu_ns / wall_ns


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true", help="end with one line of JSON")
    arguments = parser.parse_args()
    return report("drain", [*record_bars(), *live_bars()], as_json=arguments.json)


if __name__ == "__main__":
    sys.exit(main())
