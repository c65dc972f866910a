"""pilotlight overhead -- COMMAND: what recording costs this very job."""

from __future__ import annotations

import argparse
import dataclasses
import json
import os
import sys
import threading
from pathlib import Path

from pilotlight.cli.run import job_environment
from pilotlight.client import Client
from pilotlight.errors import PilotlightError, UsageError
from pilotlight.launch import JobProcess, StartFailed, split_command
from pilotlight.overhead.interval import Ratio
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
            "--window", type=float, default=1.0, metavar="S", help="seconds on or off (1)"
        )
        parser.add_argument(
            "--repeats",
            type=int,
            default=5,
            metavar="N",
            help="whole runs each way, for a job without steps (5)",
        )
        parser.add_argument("--json", action="store_true", help="the result as JSON")
        parser.add_argument("words", nargs=argparse.REMAINDER, metavar="-- COMMAND ...")

    def run(self, args: argparse.Namespace) -> int:
        from pilotlight.agent.spawn import ensure_agent

        command = split_command(args.words, self.examples[0])
        if args.window < 0.1 or args.repeats < 2:
            raise UsageError("--window is at least 0.1 s, --repeats at least 2")
        job = f"overhead-{os.getpid()}"
        try:
            with ensure_agent() as client:
                comparison = _one_run(client, job, command, args.window)
            if comparison is not None:
                return _show_windows(comparison, args.json)
            _say("too few steps in too few windows; comparing whole runs instead")
            runs = repeat(command, job_environment(job, None), args.repeats, _say)
        except StartFailed as failed:
            print(f"pilotlight overhead: {failed}", file=sys.stderr)
            return failed.exit_code
        return _show_runs(runs, args.json)


def _one_run(client: Client, job: str, command: list[str], window_s: float) -> Comparison | None:
    """Runs the job once, recording switched on and off; None if that cannot tell the cost."""
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
    if ended.exit_code != 0:
        raise PilotlightError(f"the command ended with exit code {ended.exit_code}")
    _read_steps(folder, switcher.windows)
    return compare(switcher.windows)


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


def _show_windows(comparison: Comparison, as_json: bool) -> int:
    if as_json:
        print(json.dumps({"method": "windows", **dataclasses.asdict(comparison)}))
        return 0
    print(f"step time        {_percent(comparison.step_time)}")
    if comparison.cpu_per_step is not None:
        print(f"CPU time a step  {_percent(comparison.cpu_per_step)}")
    print(f"{comparison.steps:,} steps in {comparison.step_time.pairs} pairs of windows")
    return 0


def _show_runs(runs: Runs, as_json: bool) -> int:
    if as_json:
        print(json.dumps({"method": "repeats", **dataclasses.asdict(runs)}))
        return 0
    print(f"CPU time of a run  {_percent(runs.cpu)}")
    print(
        f"{runs.cpu.pairs} pairs of runs; a longer run with steps would tell the cost on step time"
    )
    return 0


def _percent(ratio: Ratio) -> str:
    cost, low, high = (100 * (value - 1) for value in (ratio.value, ratio.low, ratio.high))
    return f"{cost:+.2f} %   (95 % confidence: {low:+.2f} to {high:+.2f} %)"
