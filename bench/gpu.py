"""The GPU provider on the simulated GPU: what it costs, whether it keeps its ceiling and the truth.

Nothing here says anything of a real GPU: the driver and CUPTI are doubles (native/tests/gpu_sim).
"""

from __future__ import annotations

import argparse
import json
import os
import random
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

from bars import Bar, at_least, at_most, report

ROOT = Path(__file__).resolve().parents[1]
SIM = ROOT / "native" / "tests" / "gpu_sim"
BUILD = ROOT / "build" / "gpu-sim"
CUPTI = "28"
RATES = (1_000, 10_000, 100_000, 1_000_000)
COSTS = (0.0, 0.005, 0.02, 0.1)
PARTS = ("launch", "all", "storms", "known")
AT_ONCE = 6  # jobs with known costs, which sleep most of the time
PAIRS, LAUNCHES = 300, 1000  # of blocks, and in each
MB = 1 << 20
TURN = 10  # steps with records, then as many without, where a program's own clock is to tell

# Launches from a Python stack 20 frames deep, in short blocks by turns: in one the simulated CUPTI
# calls an empty function, in the other us. Each fits into the ring, and the agent has the time to
# empty it in between: what is measured is a launch that is recorded. Prints CPU time a launch.
_LAUNCHES = """
import ctypes, json, os, sys, time
sys.path.insert(0, {sim!r})
from play import Gpu
gpu = Gpu()
mute = ctypes.CDLL(os.environ["PILOTLIGHT_CUPTI"]).gpu_sim_mute
function, stream = gpu.function("kernel"), gpu.stream(0)
def deep(n):
    return deep(n - 1) if n else [pair(turn) for turn in range({pairs})]
def pair(turn):
    spent = [0.0, 0.0]
    for ours in (turn % 2, 1 - turn % 2):
        mute(1 - ours)
        begin = time.thread_time_ns()
        gpu.library.gpu_sim_launch_many(function, {launches}, 1, stream)
        spent[ours] = (time.thread_time_ns() - begin) / {launches}
    time.sleep(0.02)
    return spent
print(json.dumps(deep(17)))
"""

# Steps of one length; with device records their kernels are longer by what the simulator was told.
# Long ones, so that what recording itself costs is small beside it. Where the simulator is told to
# rest every other ten, it makes no records of those and does not slow them down: what recording
# costs a step is then known by the program's own clock, without any window of the governor's.
# Prints the lengths of the steps, those with a rest and those without.
_STEPS = """
import ctypes, json, os, sys, time
sys.path.insert(0, {sim!r})
from play import Gpu
import pilotlight
gpu = Gpu()
rest = ctypes.CDLL(os.environ["PILOTLIGHT_CUPTI"]).gpu_sim_rest
lengths = [[], []]
end = time.monotonic() + {seconds}
while time.monotonic() < end:
    for resting in ((0, 1) if {rests} else (0,)):
        rest(resting)
        for number in range({turn}):
            begun = time.monotonic_ns()
            pilotlight.step(number)
            for _ in range(4):
                gpu.kernel("gemm", {kernel_ns})
            gpu.sync()
            lengths[resting].append(time.monotonic_ns() - begun)
print(json.dumps(lengths))
"""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--storm-seconds", type=float, default=16, help="at each rate")
    parser.add_argument("--runs", type=int, default=10, help="for each known cost (the bar: 50)")
    parser.add_argument("--costs", nargs="+", type=float, default=COSTS, help="known ones")
    parser.add_argument("--rates", nargs="+", type=int, default=RATES, help="of the storms")
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=PARTS, help="all if left out")
    parser.add_argument("--json", action="store_true", help="end with one line of JSON")
    arguments = parser.parse_args()
    build()
    with tempfile.TemporaryDirectory(prefix="pl-", ignore_cleanup_errors=True) as folder:
        os.environ["PILOTLIGHT_RUNTIME_DIR"] = f"{folder}/run"
        os.environ["PILOTLIGHT_DATA_DIR"] = f"{folder}/data"
        work = Path(folder)
        parts: dict[str, Callable[[], list[Bar]]] = {
            "launch": lambda: [cost_of_a_record(), cost_of_a_launch(work)],
            "all": lambda: everything_at_once(work),
            "storms": lambda: storms(work, arguments.rates, arguments.storm_seconds),
            "known": lambda: known_costs(work, arguments.costs, arguments.runs),
        }
        bars = [bar for part in arguments.parts for bar in parts[part]()]
    return report("gpu", bars, as_json=arguments.json)


def build() -> None:
    targets = ("--target", "all", "decode_bench")
    for command in (("-S", SIM, "-B", BUILD), ("--build", BUILD, "-j2", *targets)):
        subprocess.run(["cmake", *map(str, command)], check=True, capture_output=True)


def environment(**more: str) -> dict[str, str]:
    library = next((BUILD / f"cupti-{CUPTI}").glob("libcupti.so*"))
    return {
        **os.environ,
        "LD_LIBRARY_PATH": f"{BUILD}/lib",
        "PILOTLIGHT_CUPTI": str(library),
        **more,
    }


def cost_of_a_record() -> Bar:
    done = subprocess.run(
        [str(BUILD / "decode_bench")], env=environment(), capture_output=True, text=True, check=True
    )
    record_ns = float(json.loads(done.stdout)["record_ns"])
    return at_most("an activity record to the ring, ns", record_ns, 100)


def cost_of_a_launch(work: Path) -> Bar:
    """The median of differences in one process; about 95 of 100 such lie in what is printed."""
    code = _LAUNCHES.format(sim=str(SIM), pairs=PAIRS, launches=LAUNCHES)
    out, folder = run_job(work, "launch", [sys.executable, "-c", code], PILOTLIGHT_GPU="launches")
    pairs = json.loads(out)
    added = sorted(ours - plain for plain, ours in pairs)
    low, high = added[PAIRS // 2 - int(PAIRS**0.5)], added[PAIRS // 2 + int(PAIRS**0.5)]
    recorded = gpu_report(folder)["processes"][0]["launches"] / (PAIRS * LAUNCHES)
    plain = statistics.median(plain for plain, _ in pairs)
    print(
        f"a launch: {plain:.0f} ns with an empty subscriber, "
        f"{statistics.median(added):.0f} more with us ({low:.0f} to {high:.0f}); "
        f"{recorded:.1%} of them recorded",
        flush=True,
    )
    if recorded < 0.99:
        sys.exit("gpu.py: launches that found no room were measured: the machine is too busy")
    return at_most(
        "added to a launch at T0 over an empty subscriber, 20 Python frames deep, ns",
        statistics.median(added),
        150,
    )


def run_job(work: Path, name: str, command: list[str], **more: str) -> tuple[str, Path]:
    folder = work / name
    done = subprocess.run(
        [sys.executable, "-m", "pilotlight", "run", "-q", "-o", str(folder), "--", *command],
        env=environment(**more),
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    return done.stdout, folder


def gpu_report(folder: Path) -> dict[str, Any]:
    from pilotlight.recording.recording import Recording
    from pilotlight.report.gpu_work import gpu_work_of

    return asdict(gpu_work_of(Recording.open(folder)))


def everything_at_once(work: Path) -> list[Bar]:
    from pilotlight.report.gpu_work import LOST_RECORDS

    """8 devices with 100,000 kernels a second each, everything recorded, on one core."""
    core = min(os.sched_getaffinity(0))
    command = ["taskset", "-c", str(core), str(BUILD / "storm"), "100000", "2", "8", "300"]
    plain = json.loads(
        subprocess.run(command, env=environment(), capture_output=True, check=True).stdout
    )
    out, folder = run_job(work, "all", command, PILOTLIGHT_GPU="all")
    truth = json.loads(out)
    gpu = gpu_report(folder)
    kernels = sum(row["seen"] for row in gpu["work"] if row["kind"] == "kernel")
    losses = gpu["processes"][0]["losses"]
    lost = sum(losses.get(name, 0) for name in LOST_RECORDS)
    memory = (truth["peak_kb"] - plain["peak_kb"]) * 1024 / MB
    print(
        f"8 x 100k: {truth['launches']} launched, {kernels} recorded, {lost} counted as lost",
        flush=True,
    )
    return [
        at_most(
            "8 x 100 k kernels/s: neither recorded nor counted as lost",
            abs(truth["launches"] - kernels - lost),
            # The waits at the end of the 8 threads may be among the lost.
            8 if lost else 0,
        ),
        at_most("memory of the provider then, MB", memory, 48),
    ]


def storms(work: Path, rates: Sequence[int], seconds: float) -> list[Bar]:
    bars = []
    for turn, rate in enumerate(rates):
        command = [str(BUILD / "storm"), str(rate), f"{seconds:g}", "1", "300"]
        out, folder = run_job(work, f"storm-{turn}", command)
        truth = json.loads(out)
        gpu = gpu_report(folder)
        total = sum(row["total_ns"] for row in gpu["work"] if row["kind"] == "kernel")
        off = abs(total / truth["kernel_ns"] - 1)
        print(
            f"{rate} launches/s: costs {truth['late_ratio']:.2%}, total off by {off:.2%}, "
            f"seen {gpu['processes'][0]['coverage_ratio']:.1%}, "
            f"{gpu['processes'][0]['losses'] or 'nothing lost'}",
            flush=True,
        )
        name = f"storm of {rate:,} launches/s"
        bars += [
            at_most(
                f"{name}: share of the launching thread, after half the time",
                truth["late_ratio"],
                0.01,
            ),
            at_most(f"{name}: kernel time off the truth", off, 0.02),
        ]
    return bars


def known_costs(work: Path, costs: Sequence[float], runs: int) -> list[Bar]:
    """How often the interval that the report shows has the truth in it: what the simulator adds and
    what recording itself costs, as jobs without the governor find it in between."""
    bars = []
    for cost in costs:
        jobs = [False] * runs + [True] * max(runs // 4, 3)
        random.Random(1).shuffle(jobs)
        with ThreadPoolExecutor(AT_ONCE) as pool:
            found = list(pool.map(partial(known_cost, work, cost), range(len(jobs)), jobs))
        truths = [one for one in found if isinstance(one, float)]
        # Beside other programs single jobs are off by many times what the intervals are wide.
        truth = statistics.median(truths)
        unsure = 2 * 1.25 * 1.48 * statistics.median(abs(one - truth) for one in truths)
        told = [one for one in found if isinstance(one, Interval)]
        share = sum(interval.low <= truth <= interval.high for interval in told) / runs
        width = statistics.median(interval.high - interval.low for interval in told)
        off = statistics.median((interval.low + interval.high) / 2 for interval in told) - truth
        print(
            f"known cost {cost:.1%}: inside in {share:.0%} of {runs}, the interval typically "
            f"{width:.3%} wide and {off:+.3%} off; the truth {truth:.3%} "
            f"± {unsure / len(truths) ** 0.5:.3%} by {len(truths)} jobs",
            flush=True,
        )
        bars.append(
            at_least(f"known cost of {cost:.1%}: the truth inside the interval", share, 0.9)
        )
    return bars


@dataclass(frozen=True)
class Interval:
    low: float
    high: float


def known_cost(work: Path, cost: float, number: int, rests: bool) -> Interval | float | None:
    """Of one run: as its report shows it, None if it shows none; with rests: by its own clock."""
    program = _STEPS.format(sim=str(SIM), seconds=12, kernel_ns=2_500_000, rests=rests, turn=TURN)
    out, folder = run_job(
        work,
        f"cost-{cost}-{number}",
        [sys.executable, "-c", program],
        PILOTLIGHT_GPU="all" if rests else "auto",
        PILOTLIGHT_SIM_STRETCH=str(cost),
        PILOTLIGHT_GPU_PERIOD="0.3",
        PILOTLIGHT_RATE="0",
    )
    if rests:
        recorded, resting = (turns(lengths) for lengths in json.loads(out))
        return statistics.median(a / b for a, b in zip(recorded, resting, strict=False)) - 1
    found = gpu_report(folder)["processes"][0]
    if found["overhead_ratio"] is None:
        return None
    return Interval(found["overhead_low"], found["overhead_high"])


def turns(lengths: Sequence[float]) -> list[float]:
    """The typical step of each turn."""
    starts = range(0, len(lengths), TURN)
    return [middle_mean(lengths[start : start + TURN]) for start in starts]


def middle_mean(values: Sequence[float]) -> float:
    """Of the middle half: a pause of the machine is nobody's cost."""
    quarter = len(values) // 4
    return statistics.mean(sorted(values)[quarter : len(values) - quarter])


if __name__ == "__main__":
    sys.exit(main())
