"""pilotlight export: a recording in the format of another tool."""

from __future__ import annotations

import argparse
import gzip
import importlib
import json
import sys
from pathlib import Path

from pilotlight.cli import terminal
from pilotlight.errors import PilotlightError

# Format: module in pilotlight.export with the function write_FORMAT; what opens it.
FORMATS = {
    "perfetto": "ui.perfetto.dev",
    "chrome": "chrome://tracing, Perfetto; compressed if FILE ends in .gz",
    "pprof": "go tool pprof, Pyroscope, Polar Signals",
    "speedscope": "speedscope.app",
    "folded": "flamegraph.pl, inferno",
}


class Export:
    name = "export"
    help = "Write a recording for Perfetto, Chrome, pprof, speedscope or a flame graph tool."
    examples = (
        "pilotlight export my-job --format perfetto -o my-job.pftrace",
        "pilotlight export my-job --format chrome -o my-job.json.gz",
        "pilotlight export my-job --format pprof -o my-job.pb.gz",
    )

    def arguments(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument(
            "recording",
            metavar="RECORDING",
            help="a folder, the name of a job or the beginning of it",
        )
        parser.add_argument(
            "--format",
            required=True,
            choices=list(FORMATS),
            help="; ".join(f"{name}: for {reader}" for name, reader in FORMATS.items()),
        )
        parser.add_argument(
            "-o",
            "--output",
            required=True,
            type=Path,
            metavar="FILE",
            help="where to write it; -: standard output",
        )
        parser.add_argument("--json", action="store_true", help="say what was written as JSON")

    def run(self, args: argparse.Namespace) -> int:

        from pilotlight.recording.places import find_recording
        from pilotlight.recording.recording import Recording

        path = find_recording(args.recording)
        console = terminal.console(stderr=True)
        with console.status(f"writing {args.output.name}"):
            recording = Recording.open(path)
            recording.load()
            _write(recording, args.format, args.output)
        for warning in recording.warnings:
            console.print(f"warning: {warning}")
        if str(args.output) == "-":
            return 0
        size_bytes = args.output.stat().st_size
        if args.json:
            wrote = {"file": str(args.output), "format": args.format, "bytes": size_bytes}
            print(json.dumps({**wrote, "warnings": recording.warnings}))
        else:
            print(f"wrote {args.output} ({size_bytes:,} bytes), for {FORMATS[args.format]}")
        return 0


def _write(recording: object, name: str, file: Path) -> None:
    """Beside and renamed, so that nobody opens half a file; what is no file is written into."""
    write = getattr(importlib.import_module(f"pilotlight.export.{name}"), f"write_{name}")
    if str(file) == "-":
        write(recording, sys.stdout.buffer)
        sys.stdout.buffer.flush()
        return
    is_device = file.exists() and not file.is_file()
    beside = file if is_device else file.with_name(f"{file.name}.part")
    try:
        with beside.open("wb") as out:
            if name == "chrome" and file.suffix == ".gz":
                with gzip.open(out, "wb", compresslevel=4) as packed:
                    write(recording, packed)
            else:
                write(recording, out)
        if not is_device:
            beside.replace(file)
    except OSError as error:
        if not is_device:
            beside.unlink(missing_ok=True)
        raise PilotlightError(f"{file}: {error.strerror}") from None
