"""pilotlight hang: the ranks that hold up a job, from its flight-recorder dumps."""

from __future__ import annotations

import argparse
import dataclasses
import json
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pilotlight.capture.flight import fetch_flight_recorders
from pilotlight.cli import terminal
from pilotlight.errors import NotFound, PilotlightError
from pilotlight.printable import one_line

if TYPE_CHECKING:
    from pilotlight.insights.hang import HangReport
    from pilotlight.trace.flight_recorder import DumpSet

_APART_S = 1.0


class Hang:
    name = "hang"
    help = "Name the ranks at fault in a hang, of a running job or from flight-recorder dumps"
    examples = (
        "pilotlight hang my-job",
        "pilotlight hang /tmp/dumps",
        "pilotlight hang dumps --json | jq .culprits",
    )

    def arguments(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument(
            "target", metavar="FOLDER|JOB", help="a folder with one dump a rank, or a running job"
        )
        parser.add_argument("--json", action="store_true", help="print one JSON object")

    def run(self, args: argparse.Namespace) -> int:
        from pilotlight.insights.hang import find_culprits
        from pilotlight.trace.flight_recorder import read_dumps

        folder = Path(args.target)
        if folder.exists():
            found = read_dumps(folder)
            report = find_culprits(found.dumps, found.unreadable)
        else:
            with tempfile.TemporaryDirectory(prefix="pilotlight-") as made:
                found, report = _of_job(args.target, Path(made) / "dumps")
        for problem in found.problems:
            print(f"pilotlight hang: {problem}", file=sys.stderr)
        if args.json:
            print(json.dumps(dataclasses.asdict(report)))
        else:
            _print(len(found.dumps), report)
        return 2 if found.problems else 0


def _print(dumps: int, report: HangReport) -> None:
    console = terminal.console()
    if not dumps:
        console.print("No dump could be read.")
        return
    console.print(one_line(f"{dumps} dumps: {report.conclusion}"))
    for culprit in report.culprits:
        console.print(f"\nrank {culprit.rank}: {one_line(culprit.cause)}", style="bold")
        operation = f"{culprit.operation} {culprit.sequence}, group {culprit.group}"
        for label, text in (
            ("collective", operation),
            ("evidence", culprit.evidence),
            ("do", culprit.fix),
        ):
            terminal.print_labelled(console, label, text)


def _of_job(job: str, folder: Path) -> tuple[DumpSet, HangReport]:
    """Of a running job. NotFound: there is neither the job nor the folder."""
    from pilotlight.client import Client

    try:
        with Client() as client:
            processes = client.ask("status")["processes"]
            pids = [p["pid"] for p in processes if p["job"] == job and p["alive"]]
            if not pids:
                names = ", ".join(sorted({p["job"] for p in processes})) or "none"
                raise NotFound(f"{job}: no such folder, and no such job is running ({names})")
            fetched = fetch_flight_recorders(client.ask, pids, folder)
            for problem in fetched.problems:
                print(f"pilotlight hang: {problem}", file=sys.stderr)
            if fetched.folder is None:
                raise NotFound(f"job {job}: no process of it has used torch.distributed yet")
            return judge(client.ask, pids, folder)
    except NotFound:
        raise
    except PilotlightError as error:
        raise NotFound(f"{job}: no such folder; {error}") from None


def judge(
    ask: Callable[..., dict[str, Any]], pids: Sequence[int], folder: Path
) -> tuple[DumpSet, HangReport]:
    """What the dumps of a running job say. If somebody seems to wait they are taken once more: a
    job that goes on is a little further in each dump than in the one before it."""
    from pilotlight.insights.hang import HangReport, find_culprits, went_on
    from pilotlight.trace.flight_recorder import read_dumps

    found = read_dumps(folder)
    report = find_culprits(found.dumps, found.unreadable)
    if not report.culprits and not report.waiting:
        return found, report
    time.sleep(_APART_S)
    again = folder / ".again"
    try:
        fetched = fetch_flight_recorders(ask, pids, again)
        after = read_dumps(again).dumps if fetched.folder is not None else ()
    finally:
        shutil.rmtree(again, ignore_errors=True)
    if went_on(report, found.dumps, after):
        return found, HangReport((), (), "all ranks go on with their collectives: no hang")
    return found, report
