"""What it costs to take the stacks of five busy threads at 100 Hz, side by side with the peers.

The same program runs in turn under the probe's own sampler thread, austin and py-spy. Counted is
the CPU time of the thread or process that samples, after its start, per pass over all threads that
it really made: a peer that does not keep up makes fewer than it was asked for.
"""

from __future__ import annotations

import argparse
import os
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from bars import Bar, at_most, report

TARGET = Path(__file__).parents[1] / "tests" / "targets" / "busy_threads.py"
THREADS = 5
RATE_HZ = 100
WARM_UP_S = 1.5


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=5, help="measured, each time")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--json", action="store_true", help="end with one line of JSON")
    arguments = parser.parse_args()
    samplers: dict[str, Callable[[float], float | None]] = {
        "pilotlight": probe_pass_us,
        "austin": austin_pass_us,
        "py-spy --nonblocking": py_spy_pass_us,
    }
    costs: dict[str, list[float]] = {name: [] for name in samplers}
    for repeat in range(arguments.repeats):
        for name, measure in samplers.items():
            cost_us = measure(arguments.seconds)
            shown = "not measured" if cost_us is None else f"{cost_us:8.1f} us a pass"
            print(f"{repeat + 1}  {name:22}{shown}", flush=True)
            if cost_us is not None:
                costs[name].append(cost_us)
    return report("sampler", bars_of(costs), as_json=arguments.json)


def bars_of(costs: dict[str, list[float]]) -> list[Bar]:
    medians = {name: statistics.median(values) for name, values in costs.items() if values}
    own_us = medians.get("pilotlight")

    def over(peer: str) -> float | None:
        return None if own_us is None or peer not in medians else own_us / medians[peer]

    share = None if own_us is None else own_us * RATE_HZ / 1e6
    return [
        at_most("stacks of 5 threads at 100 Hz, share of a core", share, 0.01),
        at_most("stacks, CPU a pass over that of austin", over("austin"), 1 / 3),
        at_most("stacks, CPU a pass over py-spy --nonblocking", over("py-spy --nonblocking"), 0.05),
    ]


def probe_pass_us(seconds: float) -> float | None:
    """The sampler's own account of its passes and CPU time, as it reaches the agent."""
    import numpy as np

    from pilotlight import _drain

    with tempfile.TemporaryDirectory(prefix="pl-") as folder:
        environment = {**os.environ, "PILOTLIGHT": "1", "PILOTLIGHT_RUNTIME_DIR": folder}
        target = start_target(WARM_UP_S + seconds + 20, environment)
        with segment_of(target.pid).open("rb+") as file:
            reader = _drain.Reader(file.fileno(), 0, 1)
        time.sleep(WARM_UP_S)
        reader.read()
        reader.take()
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            time.sleep(0.1)
            reader.read()
            reader.commit()
        _rows, columns = reader.take()["sampler"]
        reader.close()
        finish(target)
    passes = int(np.frombuffer(columns["passes"], "<u4").sum())
    cpu_ns = int(np.frombuffer(columns["cpu_ns"], "<i8").sum())
    return cpu_ns / passes / 1000


def segment_of(pid: int) -> Path:
    """What the probe would hand to an agent: a memfd among the descriptors of the process."""
    while True:
        for path in Path(f"/proc/{pid}/fd").iterdir():
            if str(path.readlink()).startswith("/memfd:pilotlight"):
                return path
        time.sleep(0.01)


def austin_pass_us(seconds: float) -> float | None:
    return peer_pass_us("austin", ["-i", str(10**6 // RATE_HZ), "-x"], ["-o"], ["-p"], seconds)


def py_spy_pass_us(seconds: float) -> float | None:
    options = ["record", "--nonblocking", "--idle", "-f", "raw", "-r", str(RATE_HZ), "-d"]
    return peer_pass_us("py-spy", options, ["-o"], ["--pid"], seconds)


def peer_pass_us(
    name: str, options: list[str], to_file: list[str], of_pid: list[str], seconds: float
) -> float | None:
    """CPU time per pass between a short and a long run, so that the start does not count."""
    path = Path(sys.executable).with_name(name)
    command = str(path) if path.exists() else shutil.which(name)
    if command is None:
        return None
    runs = []
    for duration_s in (1, 1 + round(seconds)):
        target = start_target(duration_s + 20, dict(os.environ))
        with tempfile.TemporaryDirectory(prefix="pl-") as folder:
            output = Path(folder) / "stacks"
            arguments = [*options, str(duration_s), *to_file, str(output), *of_pid, str(target.pid)]
            before_s = children_cpu_s()
            done = subprocess.run([command, *arguments], capture_output=True)
            used_s = children_cpu_s() - before_s
            finish(target)
            if done.returncode != 0 or not output.exists():
                return None
            runs.append((used_s, stacks_in(output.read_text()) / THREADS))
    (short_s, short_passes), (long_s, long_passes) = runs
    if long_passes <= short_passes:
        return None
    return (long_s - short_s) / (long_passes - short_passes) * 1e6


def stacks_in(text: str) -> int:
    """Both write "frames count" lines: austin a line a stack with its time, py-spy with a count."""
    lines = [line for line in text.splitlines() if line and not line.startswith("#")]
    if lines and lines[0].startswith("P"):
        return len(lines)
    return sum(int(line.rsplit(" ", 1)[1]) for line in lines)


def children_cpu_s() -> float:
    """Of child processes that were waited for."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def start_target(seconds: float, environment: dict[str, str]) -> subprocess.Popen[bytes]:
    """The busy program, once all of its threads run."""
    target = subprocess.Popen([sys.executable, str(TARGET), str(seconds)], env=environment)
    while len(list(Path(f"/proc/{target.pid}/task").iterdir())) < THREADS:
        time.sleep(0.01)
    return target


def finish(process: subprocess.Popen[bytes]) -> None:
    process.kill()
    process.wait()


if __name__ == "__main__":
    sys.exit(main())
