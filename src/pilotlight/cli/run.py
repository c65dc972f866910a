"""pilotlight run -- COMMAND: the job as always, with a recording beside it."""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import resource
import signal
import sys
import time
from pathlib import Path
from typing import Any

from pilotlight.cli.terminal import leave_unsaid
from pilotlight.cli.upkeep import Upkeep
from pilotlight.client import Client
from pilotlight.errors import AgentError, PilotlightError, UsageError
from pilotlight.launch import Ended, JobProcess, StartFailed, check_exists, split_command
from pilotlight.printable import one_line
from pilotlight.probe.identity import shared_job
from pilotlight.probe.reasons import left_by

# How long the end of a job waits for its recording to be closed.
_FINISH_TIMEOUT_S = 60.0
GPU_TIERS = ("auto", "off", "launches", "nodes", "all")


class Run:
    name = "run"
    help = "Run a command and record it: no code change, exit code and signals pass through."
    examples = (
        "pilotlight run -- python train.py",
        "pilotlight run -- torchrun --nproc-per-node 4 train.py",
        "pilotlight run --name nightly --rate 50 -- python serve.py",
    )

    def arguments(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument(
            "--name",
            help="name of the job (default: command, time and pid; "
            "tasks of one srun or mpirun share one)",
        )
        parser.add_argument(
            "-o", "--output", type=Path, help="folder of the recording (default: user data folder)"
        )
        parser.add_argument(
            "--rate", type=float, metavar="HZ", help="stack samples a second, 0 to 1000 (100)"
        )
        parser.add_argument(
            "--gpu",
            choices=GPU_TIERS,
            help="what to collect from GPUs: as much as the ceiling of 1 %% allows (default), "
            "launches only, also the nodes of graphs, all without a ceiling, or nothing",
        )
        parser.add_argument("-q", "--quiet", action="store_true", help="no lines of our own")
        parser.add_argument(
            "--json", action="store_true", help="end with a summary as JSON on standard error"
        )
        parser.add_argument("words", nargs=argparse.REMAINDER, metavar="-- COMMAND ...")

    def run(self, args: argparse.Namespace) -> int:
        command = split_command(args.words, self.examples[0])
        if args.rate is not None and not 0 <= args.rate <= 1000:
            raise UsageError("--rate is samples a second, from 0 to 1000")
        job = args.name or shared_job(os.environ) or _own_name(command)
        voice = _Voice(args.quiet, args.json)
        try:
            check_exists(command)
        except StartFailed as failed:
            return _failed(failed)
        upkeep = _open_recording(job, args.output, command, voice)
        environment = (
            job_environment(job, args.rate, args.gpu) if upkeep is not None else dict(os.environ)
        )
        try:
            process = JobProcess(command, environment)
        except StartFailed as failed:
            if upkeep is not None:
                # That nothing ran needs no line of its own.
                voice = _Voice(quiet=True, as_json=args.json)
                _close_recording(upkeep, job, Ended(failed.exit_code, None), args.output, voice)
            return _failed(failed)
        if upkeep is not None:
            upkeep.stand_by()
        ended = process.wait()
        if upkeep is not None:
            _close_recording(upkeep, job, ended, args.output, voice)
        return pass_on(ended)


def _own_name(command: list[str]) -> str:
    return f"{Path(command[0]).name}-{time.strftime('%Y%m%d-%H%M%S')}-{os.getpid()}"


def _failed(failed: StartFailed) -> int:
    _tell(f"pilotlight run: {failed}")
    return failed.exit_code


def _tell(line: str) -> None:
    """Nobody may be there any more to read it: the job begins and ends as ever."""
    try:
        print(line, file=sys.stderr, flush=True)
    except OSError:
        leave_unsaid(sys.stderr)


def job_environment(job: str, rate: float | None, gpu: str | None = None) -> dict[str, str]:
    """What makes the job's processes start the probe and find this agent."""
    from pilotlight.kineto.endpoint import kineto_environment
    from pilotlight.place import runtime_folder
    from pilotlight.probe.providers import library_folder, provider_environment
    from pilotlight.runtime import runtime

    added = {
        **provider_environment(os.environ, library_folder()),
        "PILOTLIGHT": "1",
        "PILOTLIGHT_JOB": job,
        "PILOTLIGHT_RUNTIME_DIR": runtime_folder(),
        **kineto_environment(os.environ, runtime().kineto_folder),
    }
    if rate is not None:
        added["PILOTLIGHT_RATE"] = f"{rate:g}"
    if gpu is not None:
        added["PILOTLIGHT_GPU"] = gpu
    return {**os.environ, **added}


def pass_on(ended: Ended) -> int:
    """The job's exit code; if a signal ended it, the same signal ends us."""
    if ended.signal is None:
        return ended.exit_code
    # The job has left its own core file, if any.
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    sys.stdout.flush()
    sys.stderr.flush()
    if ended.signal not in (signal.SIGKILL, signal.SIGSTOP):
        signal.signal(ended.signal, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, [ended.signal])
    os.kill(os.getpid(), ended.signal)
    return 128 + ended.signal


class _Voice:
    """Our few lines on standard error; none of them between the job's own."""

    def __init__(self, quiet: bool, as_json: bool) -> None:
        self._quiet = quiet
        self._json = as_json
        self.since_s = time.time()

    def say(self, line: str) -> None:
        if not self._quiet:
            _tell(f"pilotlight: {line}")

    def summary(self, output: Path | None, summary: dict[str, Any]) -> None:
        folder = summary["folder"]
        if self._json:
            _tell(json.dumps(summary))
            return
        if summary.get("others"):
            return  # tasks of this job that still run here; the last one speaks for all
        if summary["not_started"]:
            count = len(summary["not_started"])
            last = one_line(summary["not_started"][-1].partition(", ")[2])
            self.say(f"{count} process{'' if count == 1 else 'es'} not recorded, last {last}")
        processes = int(summary["processes_ever"])
        if processes == 0:
            self.say(
                "no process was recorded: no Python with pilotlight installed ran, or its probe "
                "could not start; `pilotlight doctor` says which"
            )
            return
        still = (
            f", {len(summary['still_running'])} still running" if summary["still_running"] else ""
        )
        # An agent counts for itself.
        counts = (
            f"{int(summary['records_read']):,} records, {int(summary['records_dropped']):,} dropped"
            if summary["agents"] == 1
            else f"by {summary['agents']} agents in turn"
        )
        self.say(
            f"recorded {processes} process{'' if processes == 1 else 'es'}{still}, {counts}: "
            f"{folder}"
        )
        if summary["errors"]:
            self.say(
                f"not all of it could be written ({summary['errors'][0]}): "
                f"{int(summary['rows_dropped']):,} rows lost, "
                f"{int(summary['chunks_dropped']):,} old chunks of detail dropped"
            )
        self.say(f"see it with `pilotlight report{f' {output}' if output else ''}`")


def _open_recording(
    job: str, output: Path | None, command: list[str], voice: _Voice
) -> Upkeep | None:
    """A job must run even where it cannot be recorded."""
    try:
        upkeep = Upkeep(job, output, command)
        if wanted := os.environ.get("PILOTLIGHT_COLLECTOR"):
            _check_collector(upkeep.client, wanted, voice)
        return upkeep
    except (PilotlightError, OSError) as error:
        voice.say(f"not recorded: {error}")
        return None


def _check_collector(client: Client, wanted: str, voice: _Voice) -> None:
    """An agent that ran before sends where it was told to then."""
    agent = client.ask("status")["agent"]
    url = (agent["collector"] or {}).get("url", "")
    if url.rstrip("/") != wanted.rstrip("/"):
        voice.say(
            f"not sent to {wanted}: the agent that runs here already sends {url or 'nowhere'}; "
            f"end it first (kill {agent['pid']}, when its jobs are over)"
        )


def _check_sent(client: Client, voice: _Voice) -> None:
    collector = client.ask("status")["agent"]["collector"]
    if collector and (why := collector.get("why")):
        voice.say(
            f"not sent yet to {collector['url']}: {why}; what waits is sent by the next agent here"
        )


def _close_recording(
    upkeep: Upkeep, job: str, ended: Ended, output: Path | None, voice: _Voice
) -> None:
    """Nothing here may change how the command ends for whoever called us."""
    try:
        with contextlib.suppress(AgentError):
            _check_sent(upkeep.client, voice)
        summary = upkeep.finish(ended, _FINISH_TIMEOUT_S)
        voice.summary(output, {**summary, "not_started": left_by(job, voice.since_s)})
    except Exception as error:
        voice.say(f"the recording was not closed: {error}; it can be read up to here")
