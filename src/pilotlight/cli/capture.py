"""pilotlight capture: a full trace of a running job, of the same steps on all its ranks."""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import re
import shutil
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pilotlight.asking import add_papers
from pilotlight.capture.request import DONE, ENDS, FAILED, LEFT_OUT, CaptureRequest
from pilotlight.capture.told import told_of
from pilotlight.cli.capture_gpu import KINDS as GPU_KINDS
from pilotlight.cli.capture_gpu import capture_gpu
from pilotlight.cli.capture_result import lines, next_lines
from pilotlight.cli.terminal import overwrite
from pilotlight.cli.top import processes
from pilotlight.client import Client
from pilotlight.errors import PilotlightError, UsageError
from pilotlight.kineto.config import Options
from pilotlight.place import node_name
from pilotlight.recording.places import recordings_root

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pilotlight.capture.manifest import CaptureManifest, Step

_STEPS = 3
_GRACE_S = 30.0


class Capture:
    name = "capture"
    help = "Take a full trace of a running job, unmodified: the same steps on all its ranks."
    examples = (
        "pilotlight capture my-job",
        "pilotlight capture my-job --steps 5 --ranks 0,4 --stacks --shapes",
        "pilotlight capture 4711 --seconds 2 -o /tmp/trace    a process that counts no steps",
        "pilotlight capture my-job --json | jq .processes",
        "pilotlight capture my-job --steps 3 --ranks all --collector https://host:7777",
        "pilotlight capture my-job --id 92c8e5f9e6217d28    what a finding has captured",
        "pilotlight capture my-job --gpu nodes --seconds 10    more of its GPUs, in its recording",
        "pilotlight capture my-job --gpu pc --seconds 30    why its kernels stall",
        "pilotlight capture my-job --gpu pm --seconds 10    how busy the units of its GPUs are",
        "pilotlight capture my-job --gpu range --seconds 10    what each kernel asks of them",
    )

    def arguments(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument("target", metavar="JOB|PID", help="a job or a process")
        parser.add_argument("--steps", type=int, metavar="N", help=f"how many ({_STEPS})")
        parser.add_argument(
            "--seconds",
            type=float,
            metavar="S",
            help="how long where no steps are counted (1), or with --gpu (10)",
        )
        parser.add_argument("--ranks", metavar="0,4,8-11", help="only these (all)")
        parser.add_argument("--stacks", action="store_true", help="with Python stacks and modules")
        parser.add_argument("--shapes", action="store_true", help="with shapes of tensors")
        parser.add_argument(
            "--memory",
            action="store_true",
            help="with allocations, of a torch that tells them (docs/capture.md)",
        )
        parser.add_argument(
            "--gpu",
            choices=GPU_KINDS,
            help="no trace, but for --seconds more of the GPUs in the job's recording: launches, "
            "records, nodes of graphs; pc (why kernels stall), pm (how busy the units are) and "
            "range (what each kernel asks of them) need permission",
        )
        parser.add_argument("-o", "--output", type=Path, metavar="DIR", help="a new folder")
        parser.add_argument(
            "--timeout", type=float, default=60.0, metavar="S", help="wait no longer (60)"
        )
        parser.add_argument("--json", action="store_true", help="print the result as JSON")
        parser.add_argument(
            "--collector",
            metavar="URL",
            help="a job on other machines (PILOTLIGHT_COLLECTOR, if it is not here): the last "
            "--seconds of their flight recorders, with --steps also traces of the next steps",
        )
        parser.add_argument(
            "--id", metavar="ID", help="one that the collector already has; `pilotlight job` tells"
        )
        # For the agent, which asks its collector: see agent/tracing.py.
        parser.add_argument("--agree", action="store_true", help=argparse.SUPPRESS)
        add_papers(parser)

    def run(self, args: argparse.Namespace) -> int:
        if args.gpu:
            return capture_gpu(args.target, args.gpu, args.seconds, args.json)
        seconds = 1.0 if args.seconds is None else args.seconds

        from pilotlight.capture.collect import prepare

        if args.collector or args.id or _is_elsewhere(args.target):
            from pilotlight.cli.capture_remote import capture_by_collector

            ranks = parse_ranks(args.ranks) if args.ranks and args.ranks != "all" else ()
            folder = args.output or _new_folder(args.target)
            return capture_by_collector(args, ranks, max(seconds, 5.0), folder)
        is_pid = args.target.isdigit()
        request = CaptureRequest(
            job=None if is_pid else args.target,
            pid=int(args.target) if is_pid else None,
            steps=_STEPS if args.steps is None else args.steps,
            seconds=seconds,
            ranks=parse_ranks(args.ranks) if args.ranks and args.ranks != "all" else (),
            options=Options(stacks=args.stacks, shapes=args.shapes, memory=args.memory),
            patience_s=args.timeout,
            agrees=args.agree,
        )
        folder = args.output or _new_folder(args.target)
        prepare(folder)
        try:
            with Client(timeout_s=request.patience_s + _GRACE_S) as client:
                progress = _Progress(quiet=args.json)
                manifest = _take(client, request, args.target, folder, progress)
                is_by_step = manifest.first_step is not None
                if is_by_step and manifest.same_steps is False and _is_complete(manifest):
                    progress.note("a rank began too late and has other steps; once more")
                    _empty(folder)
                    manifest = _take(client, request, args.target, folder, progress)
        except PilotlightError:
            # Nothing was captured: leaves no empty folder behind.
            with contextlib.suppress(OSError):
                folder.rmdir()
            raise
        if args.json:
            print(json.dumps({"folder": str(folder), **json.loads(manifest.to_json())}))
        else:
            print("\n".join([*lines(manifest, folder), *next_lines(manifest, folder)]))
        return 0 if _is_complete(manifest) else 1


def _is_complete(manifest: CaptureManifest) -> bool:
    asked = [p for p in manifest.processes if p.answered.state != LEFT_OUT]
    return bool(asked) and not manifest.problems and all(p.file for p in asked)


def _take(
    client: Client, request: CaptureRequest, target: str, folder: Path, progress: _Progress
) -> CaptureManifest:
    from pilotlight.capture.deliver import deliver

    state = _wait(client, request, progress)
    job, recorded = _recorded(client, target)
    is_whole = False
    try:
        node = node_name()
        delivered = deliver(state, request, job, node, recorded, folder, progress.say)
        is_whole = delivered.is_whole
        return delivered.manifest
    finally:
        progress.end()
        client.ask("collected", capture=state["capture"], keep=not is_whole)


def _empty(folder: Path) -> None:
    for path in folder.iterdir():
        shutil.rmtree(path) if path.is_dir() else path.unlink()


def _is_elsewhere(target: str) -> bool:
    """There is a collector to ask, and no agent here records such a job."""
    if target.isdigit() or not os.environ.get("PILOTLIGHT_COLLECTOR"):
        return False
    try:
        with Client() as client:
            return all(job["job"] != target for job in client.ask("status")["jobs"])
    except PilotlightError:
        return True


def parse_ranks(text: str) -> tuple[int, ...]:
    """`0,4,8-11`: UsageError if it is none."""
    ranks: list[int] = []
    for part in text.split(","):
        match = re.fullmatch(r"\s*(\d{1,6})(?:-(\d{1,6}))?\s*", part)
        if match is None or (match[2] and int(match[2]) < int(match[1])):
            raise UsageError(f"{text}: not ranks; write 0,4 or 8-11")
        ranks += range(int(match[1]), int(match[2] or match[1]) + 1)
    return tuple(sorted(set(ranks)))


class _Progress:
    """One line on the terminal; where there is none, a line for each phase."""

    def __init__(self, quiet: bool) -> None:
        self._is_terminal = sys.stderr.isatty() and not quiet
        self._quiet = quiet
        self._began_s = time.monotonic()
        self._said = ""

    def show(self, state: Mapping[str, Any]) -> None:
        if self._is_terminal:
            self.say(_phase(state))
        elif not self._quiet and state["phase"] != self._said:
            self._said = str(state["phase"])
            print(_phase(state), file=sys.stderr, flush=True)

    def note(self, text: str) -> None:
        self.end()
        if not self._quiet:
            print(text, file=sys.stderr, flush=True)

    def say(self, text: str) -> None:
        """Only on a terminal."""
        if self._is_terminal:
            elapsed_s = time.monotonic() - self._began_s
            overwrite(f"{elapsed_s:4.0f} s  {text}")

    def end(self) -> None:
        if self._is_terminal:
            overwrite("")


def _phase(state: Mapping[str, Any]) -> str:
    asked = [p for p in state["processes"] if p["state"] != LEFT_OUT]
    if state["phase"] == "measuring":
        return f"{processes(len(asked))}: how far are they?"
    if state["phase"] == "agreeing":
        return f"{processes(len(asked))}: which step can all nodes reach?"
    counts = {word: sum(p["state"] == word for p in asked) for word in (DONE, FAILED)}
    running = sum(p["state"] not in ENDS for p in asked)
    if state["first_step"] is not None:
        at = max((p["steps"] for p in asked if p["steps"] is not None), default=None)
        last = state["first_step"] + state["steps"] - 1
        what = f"{state['first_step']} to {last}" + (f", now at {at}" if at else "")
        wanted = state["wanted_steps"]
        is_step = state["steps"] == wanted
        what = f"steps {what}" if is_step else f"{wanted} steps, calls of optimizers {what}"
    else:
        what = f"{state['duration_ns'] / 1e9:.2f} s" if state["duration_ns"] else "nothing"
    return f"{what}: {running} under way, {counts[DONE]} done, {counts[FAILED]} failed"


def _wait(client: Client, request: CaptureRequest, progress: _Progress) -> dict[str, Any]:
    fields: dict[str, Any] = request.to_json()
    client.ask("capture", **fields)
    deadline_s = time.monotonic() + request.patience_s + _GRACE_S
    is_proposed = False
    try:
        while True:
            state = client.next_line()
            if state.get("kind") != "capture":
                continue
            progress.show(state)
            if request.agrees:
                _tell(state["processes"])
            if state["phase"] == "agreeing" and not is_proposed:
                is_proposed = True
                client.ask("decided", capture=state["capture"], **_decision(state["proposal"]))
            if state["phase"] == "over":
                return state
            if time.monotonic() > deadline_s:
                raise PilotlightError("the agent does not end the capture; try again")
    finally:
        progress.end()


def _tell(processes: Sequence[Mapping[str, Any]]) -> None:
    """How far each rank is, to whoever started this."""
    told = [one.to_json() for one in told_of(processes)]
    print(json.dumps({"progress": told}), flush=True)


def _decision(proposal: Mapping[str, Any]) -> dict[str, Any]:
    """What whoever started this says to the proposal of this node."""
    print(json.dumps({"proposal": proposal}), flush=True)
    try:
        decision = json.loads(sys.stdin.readline())
        return {"first_step": decision["first_step"], "start_ns": decision["start_ns"]}
    except (ValueError, TypeError, KeyError):
        raise PilotlightError("the nodes of the job did not agree on a first step") from None


def _recorded(client: Client, target: str) -> tuple[str, Mapping[int, Sequence[Step]]]:
    """The job, and its steps where they are recorded; a capture does without."""
    from pilotlight.capture.examine import recorded_steps

    try:
        wanted: dict[str, Any] = {"pid": int(target)} if target.isdigit() else {"job": target}
        found = client.ask("flush", **wanted)
        return str(found["job"]), recorded_steps(Path(found["folder"]))
    except (PilotlightError, OSError):
        return target, {}


def _new_folder(target: str) -> Path:
    plain = re.sub(r"[^\w.+-]", "_", target).strip(".") or "job"
    root = recordings_root().parent / "captures"
    stamp = time.strftime("%Y%m%d-%H%M%S")
    for number in range(1, 1000):
        place = root / (f"{plain}-{stamp}" if number == 1 else f"{plain}-{stamp}-{number}")
        if not place.exists():
            return place
    raise UsageError(f"{root}: too many captures; name a folder with -o")
