"""pilotlight overhead -- COMMAND: what recording costs this very job."""

from __future__ import annotations

import argparse
import dataclasses
import json
import os
import statistics
import sys
import threading
import time
from pathlib import Path

from pilotlight.cli.run import job_environment
from pilotlight.client import Client
from pilotlight.errors import PilotlightError, UsageError
from pilotlight.launch import Ended, JobProcess, StartFailed, split_command
from pilotlight.overhead.interval import LEAST_PAIRS, Ratio, meaning
from pilotlight.overhead.repeats import Runs, repeat
from pilotlight.overhead.windows import Comparison, Switcher, Window, compare, place_steps

_FINISH_TIMEOUT_S = 60.0


class Overhead:
    name = "overhead"
    help = "Measure what recording costs a job: on and off in turn, with a confidence interval."
    examples = (
        "pilotlight overhead -- python train.py",
        "pilotlight overhead --window 5 -- torchrun --nproc-per-node 8 train.py",
        "pilotlight overhead --repeats 10 -- python no_steps.py",
    )

    def arguments(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument(
            "--window",
            type=float,
            default=1.0,
            metavar="S",
            help="seconds on or off, longer where steps are long (1)",
        )
        parser.add_argument(
            "--repeats",
            type=int,
            default=LEAST_PAIRS,
            metavar="N",
            help="whole runs each way, for a job without steps (6)",
        )
        parser.add_argument("--json", action="store_true", help="the result as JSON")
        parser.add_argument("words", nargs=argparse.REMAINDER, metavar="-- COMMAND ...")

    def run(self, args: argparse.Namespace) -> int:
        from pilotlight.agent.spawn import ensure_agent

        command = split_command(args.words, self.examples[0])
        if args.window < 0.1 or args.repeats < 2:
            raise UsageError("--window is at least 0.1 s, --repeats at least 2")
        job = f"overhead-{os.getpid()}"
        _say("recording goes on and off while the job runs; Ctrl-C ends both and tells the result")
        try:
            with ensure_agent() as client:
                began = time.monotonic()
                comparison, ended = _one_run(client, job, command, args.window)
            if comparison is not None:
                _show_windows(comparison, args.json)
            if ended.signal is None and ended.exit_code != 0:
                raise PilotlightError(f"the command ended with exit code {ended.exit_code}")
            if comparison is not None:
                return 0
            if ended.signal is not None:
                raise PilotlightError("the command was ended before there was enough to compare")
            _say(
                f"too few steps in too few windows; comparing whole runs instead: "
                f"{2 * args.repeats} more of about {time.monotonic() - began:.0f} s"
            )
            runs = repeat(command, job_environment(job, None), args.repeats, _say)
        except StartFailed as failed:
            print(f"pilotlight overhead: {failed}", file=sys.stderr)
            return failed.exit_code
        return _show_runs(runs, args.json)


def _one_run(
    client: Client, job: str, command: list[str], window_s: float
) -> tuple[Comparison | None, Ended]:
    """Runs the job once, recording switched on and off; no comparison: it cannot tell the cost."""
    folder = Path(client.ask("record", job=job, folder=None, command=command)["folder"])
    switcher = Switcher(Client(), job, window_s, seed=os.getpid())
    process = JobProcess(command, job_environment(job, None))
    done = threading.Event()
    thread = threading.Thread(target=_switch, args=(switcher, done), daemon=True)
    thread.start()
    ended = process.wait()
    done.set()
    thread.join()
    client.ask(
        "finish",
        timeout_s=_FINISH_TIMEOUT_S,
        job=job,
        exit_code=ended.exit_code,
        signal=ended.signal,
    )
    _read_steps(folder, switcher.windows)
    return compare(switcher.windows), ended


def _switch(switcher: Switcher, done: threading.Event) -> None:
    while not done.is_set():
        try:
            switcher.pair()
        except PilotlightError:
            return


def _read_steps(folder: Path, windows: list[Window]) -> None:
    from pilotlight.recording.recording import Recording

    steps = Recording.open(folder).windows("steps")
    place_steps(windows, steps["start_ns"].tolist(), steps["duration_ns"].tolist())


def _say(line: str) -> None:
    print(f"pilotlight overhead: {line}", file=sys.stderr, flush=True)


def _show_windows(comparison: Comparison, as_json: bool) -> None:
    if as_json:
        print(json.dumps({"method": "windows", **dataclasses.asdict(comparison)}))
        return
    print(f"step time        {_percent(comparison.step_time)}")
    if comparison.cpu_per_step is not None:
        print(f"CPU time a step  {_percent(comparison.cpu_per_step)}")
    print(f"{comparison.steps:,} steps in {comparison.step_time.pairs} pairs of windows")
    print(_told(comparison))


def _told(comparison: Comparison) -> str:
    """By what is known best: on a busy machine that is the CPU time."""
    step, cpu = comparison.step_time, comparison.cpu_per_step
    if cpu is not None and cpu.high - cpu.low < step.high - step.low:
        return meaning(cpu, "CPU time of a step")
    return meaning(step, "time of a step")


def _show_runs(runs: Runs, as_json: bool) -> int:
    if as_json:
        print(json.dumps({"method": "repeats", **dataclasses.asdict(runs)}))
        return 0
    print(f"CPU time of a run  {_percent(runs.cpu)}")
    print(
        f"{1000 * runs.added_s:+.0f} ms to {statistics.median(runs.off_s):.3g} s in the median of "
        f"{runs.cpu.pairs} pairs of runs, with the start of the probe: a longer run feels it less"
    )
    print(meaning(runs.cpu, "CPU time of a run"))
    return 0


def _percent(ratio: Ratio) -> str:
    cost, low, high = (100 * (value - 1) for value in (ratio.value, ratio.low, ratio.high))
    return f"{cost:+.2f} %   (95 % confidence: {low:+.2f} to {high:+.2f} %)"
