"""pilotlight report: what a recording says."""

from __future__ import annotations

import argparse
import json
import sys
from dataclasses import asdict
from pathlib import Path

from pilotlight.errors import PilotlightError


class Report:
    name = "report"
    help = "Say where the time of a recording went: steps, stacks, ranges, losses, own cost."
    examples = (
        "pilotlight report",
        "pilotlight report my-job --html report.html",
        "pilotlight report my-job --json | jq .steps",
    )

    def arguments(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument(
            "recording",
            nargs="?",
            metavar="RECORDING",
            help="a folder, the name of a job or the beginning of it; the newest if left out;"
            " or the folder of a capture",
        )
        parser.add_argument("--html", type=Path, metavar="FILE", help="write one HTML file")
        parser.add_argument("--json", action="store_true", help="the whole report as JSON")

    def run(self, args: argparse.Namespace) -> int:
        from pilotlight.capture.manifest import is_capture
        from pilotlight.cli.terminal import console

        if args.recording is not None and is_capture(Path(args.recording)):
            return _report_capture(Path(args.recording), args)

        from pilotlight.recording.places import find_recording
        from pilotlight.recording.recording import Recording
        from pilotlight.report.report import report_of

        path = find_recording(args.recording)
        with console(stderr=True).status(f"reading {path.name}"):
            report = report_of(Recording.open(path))
        if args.html:
            from pilotlight import __version__
            from pilotlight.web.reported import report_page

            _write(args.html, report_page(report, __version__))
        if args.json:
            from pilotlight.report.document import document_of

            json.dump(document_of(report), sys.stdout, allow_nan=False)
            print()
        elif args.html:
            print(f"wrote {args.html}")
        else:
            from pilotlight.report.terminal import print_report

            print_report(report, console())
        return 0


def _report_capture(folder: Path, args: argparse.Namespace) -> int:
    from pilotlight.capture.manifest import read_capture
    from pilotlight.capture.summary import summarize
    from pilotlight.cli.capture_result import lines, summary_lines

    manifest = read_capture(folder)
    ranks, problems = summarize(folder)
    if args.html:
        from pilotlight.analysis import analyze

        _write(args.html, analyze([folder]).to_html())
    if args.json:
        document = {**json.loads(manifest.to_json()), "ranks": [asdict(rank) for rank in ranks]}
        print(json.dumps({**document, "problems": [*manifest.problems, *problems]}))
    elif args.html:
        print(f"wrote {args.html}")
    else:
        print("\n".join([*lines(manifest, folder), *summary_lines(ranks), *problems]))
    return 0


def _write(file: Path, text: str) -> None:
    try:
        file.write_text(text, encoding="utf-8")
    except OSError as error:
        raise PilotlightError(f"{file}: {error.strerror}") from None
