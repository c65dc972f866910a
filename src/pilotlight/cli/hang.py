"""pilotlight hang: the ranks that hold up a job, from its flight-recorder dumps."""

from __future__ import annotations

import argparse
import dataclasses
import json
import sys
from pathlib import Path


class Hang:
    name = "hang"
    help = "Name the ranks at fault in a hang, from flight-recorder dumps"
    examples = ("pilotlight hang /tmp/dumps", "pilotlight hang dumps --json | jq .culprits")

    def arguments(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument("folder", type=Path, help="folder with one dump a rank")
        parser.add_argument("--json", action="store_true", help="print one JSON object")

    def run(self, args: argparse.Namespace) -> int:
        from pilotlight.insights.hang import find_culprits
        from pilotlight.trace.flight_recorder import read_dumps

        found = read_dumps(args.folder)
        for problem in found.problems:
            print(f"pilotlight hang: {problem}", file=sys.stderr)
        report = find_culprits(found.dumps)
        if args.json:
            print(json.dumps(dataclasses.asdict(report)))
        else:
            print(f"{len(found.dumps)} dumps: {report.conclusion}")
            for culprit in report.culprits:
                print(f"\nrank {culprit.rank}: {culprit.cause}")
                print(
                    f"  collective  {culprit.operation} {culprit.sequence}, group {culprit.group}"
                )
                print(f"  evidence    {culprit.evidence}")
                print(f"  do          {culprit.fix}")
        return 2 if found.problems else 0
