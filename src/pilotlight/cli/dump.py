"""`pilotlight dump`: the last seconds of a process or job, and its stacks as they are now."""

from __future__ import annotations

import argparse
import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pilotlight.agent.slice import copy_last, is_slice
from pilotlight.client import NO_AGENT, Client
from pilotlight.errors import AgentError, NotFound, PilotlightError, UsageError
from pilotlight.printable import one_line
from pilotlight.recording.places import all_recordings, find_recording, recordings_root
from pilotlight.recording.processes import read_processes
from pilotlight.recording.recording import Recording

_UNITS_S = {"": 1.0, "s": 1.0, "m": 60.0, "h": 3600.0}
_MOST_STACKS = 16


def parse_duration_ns(text: str) -> int:
    """`60`, `90s`, `5m`: UsageError if it is none."""
    match = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([smh]?)", text.strip())
    if match is None or float(match[1]) <= 0:
        raise UsageError(f"{text}: not a time; write 60s or 5m")
    return int(float(match[1]) * _UNITS_S[match[2]] * 1e9)


@dataclass(frozen=True)
class _Found:
    """Where the recording is, who to ask for stacks, and why the agent was no help."""

    folder: Path
    pids: list[int]
    left_out: int
    note: str | None


class Dump:
    name = "dump"
    help = "Save the last seconds of a job or process, running, hung or dead, and show its stacks."
    examples = (
        "pilotlight dump 4711",
        "pilotlight dump nightly --last 5m -o /tmp/nightly",
        "pilotlight dump 4711 --stacks     only what it does now",
    )

    def arguments(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument("target", metavar="PID|JOB", help="a process or a job")
        parser.add_argument("--last", default="60s", metavar="TIME", help="how far back (60s)")
        parser.add_argument(
            "-o", "--output", type=Path, metavar="DIR", help="a new folder for the recording"
        )
        parser.add_argument("--stacks", action="store_true", help="only the stacks, no recording")
        parser.add_argument("--json", action="store_true", help="print the result as JSON")

    def run(self, args: argparse.Namespace) -> int:
        last_ns = parse_duration_ns(args.last)
        client: Client | None = None
        try:
            client = Client()
        except AgentError as error:
            missing = "the agent is gone" if str(error) == NO_AGENT else str(error)
        try:
            found = _ask(client, args.target) if client else _search(args.target, missing)
            stacks = _stacks(client, found.pids) if client else []
            result: dict[str, Any] = {"of": str(found.folder), "note": found.note}
            result |= {"processes": stacks, "processes_left_out": found.left_out}
            if not args.stacks:
                output = args.output or _beside(found.folder)
                made = copy_last(found.folder, output, last_ns)
                result |= {"recording": str(output), "chunks": made.chunks}
                result |= {"range_ns": made.range_ns}
                name_threads(stacks, Recording.open(output))
                result["flight_recorder"] = _flight(client, found.pids, output) if client else None
            elif not stacks:
                raise AgentError(f"no stacks of {args.target}: {found.note or 'it is not running'}")
        finally:
            if client:
                client.close()
        print(json.dumps(result) if args.json else "\n".join(map(one_line, lines(result))))
        return 0


def _ask(client: Client, target: str) -> _Found:
    """What the agent knows; what it does not know may still be on disk."""
    try:
        if target.isdigit():
            answer = client.ask("flush", pid=int(target))
        else:
            answer = client.ask("flush", job=target)
    except NotFound as error:
        try:
            return _search(target, None)
        except NotFound:
            raise error from None
    except AgentError as error:
        return _search(target, str(error))
    processes = [
        process["pid"]
        for process in client.ask("status")["processes"]
        if process["job"] == answer["job"] and process["alive"]
    ]
    if target.isdigit():
        processes = [pid for pid in processes if pid == int(target)]
    return _Found(
        Path(answer["folder"]),
        processes[:_MOST_STACKS],
        max(0, len(processes) - _MOST_STACKS),
        None,
    )


def _search(target: str, problem: str | None) -> _Found:
    """On disk: the newest recording of that job, or with that process."""
    note = f"{problem}; this is what it left" if problem else "it has ended"
    if not target.isdigit():
        return _Found(find_recording(target), [], 0, note)
    pids: list[int] = []
    for folder in reversed(all_recordings(recordings_root())):
        if is_slice(folder):
            continue
        found = [process.start.pid for process in read_processes(folder)[0]]
        if int(target) in found:
            return _Found(folder, [], 0, note)
        pids += found
    there = ", ".join(map(str, pids[:8])) or "none"
    raise NotFound(f"no recording of process {target}; there are recordings of {there}")


def _stacks(client: Client, pids: list[int]) -> list[dict[str, Any]]:
    stacks = []
    for pid in pids:
        try:
            answer = client.ask("stacks", pid=pid)
            stacks.append({"pid": pid, "threads": answer["threads"], "problem": None})
        except PilotlightError as error:
            stacks.append({"pid": pid, "threads": [], "problem": str(error)})
    return stacks


def name_threads(stacks: list[dict[str, Any]], recording: Recording) -> None:
    """Adds what a recording knows of the threads: their names."""
    index_of = {process.start.pid: process.start.process for process in recording.processes}
    for process in stacks:
        for thread in process["threads"]:
            key = (index_of.get(process["pid"], -1), thread["thread"])
            thread["name"] = recording.thread_names.get(key, "")


def _flight(client: Client, pids: list[int], output: Path) -> dict[str, Any] | None:
    """The last collectives of each rank, and who holds up the others; None without any."""
    from pilotlight.capture.flight import FOLDER, fetch_flight_recorders
    from pilotlight.cli.hang import judge

    found = fetch_flight_recorders(client.ask, pids, output / FOLDER)
    if found.folder is None:
        return {"folder": None, "problems": list(found.problems)} if found.problems else None
    dumps, report = judge(client.ask, pids, found.folder)
    problems = [*found.problems, *(str(problem) for problem in dumps.problems)]
    return {
        "folder": str(found.folder),
        "conclusion": report.conclusion,
        "is_hung": bool(report.culprits or report.waiting),
        "problems": problems,
    }


def _beside(folder: Path) -> Path:
    root = recordings_root()
    for number in range(1, 10_000):
        place = root / f"{folder.name}-dump-{number}"
        if not place.exists():
            return place
    raise AgentError(f"{root}: too many dumps of {folder.name}; name a folder with -o")


def lines(result: dict[str, Any]) -> list[str]:
    """The result for people."""
    shown = [result["note"]] if result["note"] else []
    for process in result["processes"]:
        shown.append(
            f"process {process['pid']}" + (f": {process['problem']}" if process["problem"] else "")
        )
        for thread in process["threads"]:
            main = "main " if thread["thread"] == process["pid"] else ""
            state = thread["state"].replace("_", " ")
            name = f" {thread['name']}" if thread.get("name") and not main else ""
            shown.append(f"  {main}thread {thread['thread']}{name} ({state})")
            for frame in reversed(thread["frames"]):
                shown.append(f"    {frame['function']} ({frame['file']}:{frame['line']})")
    if result["processes_left_out"]:
        shown.append(f"{result['processes_left_out']} more processes: name one by its pid")
    if "recording" in result:
        seconds = (result["range_ns"][1] - result["range_ns"][0]) / 1e9
        shown.append(f"the last {seconds:.1f} s: {result['recording']}")
        shown.append(f"see it with `pilotlight report {result['recording']}`")
        shown += _flight_lines(result["flight_recorder"])
    return shown


def _flight_lines(found: dict[str, Any] | None) -> list[str]:
    if found is None:
        return []
    shown = [f"flight recorder: {problem}" for problem in found["problems"]]
    if found["folder"] is not None:
        shown.append(f"flight recorder: {found['conclusion']}")
        if found["is_hung"]:
            shown.append(f"see it with `pilotlight hang {found['folder']}`")
    return shown
