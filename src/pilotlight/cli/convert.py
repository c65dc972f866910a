"""pilotlight convert: one trace format to another."""

from __future__ import annotations

import argparse
import json
import os
import sys
from pathlib import Path

from pilotlight.errors import FormatError, UsageError

PERFETTO_SUFFIXES = (".pftrace", ".perfetto-trace")


class Convert:
    name = "convert"
    help = "Write traces of any format as Kineto JSON or as a Perfetto trace"
    examples = (
        "pilotlight convert report.sqlite trace.json.gz",
        "pilotlight convert ranks.tar.gz folder/",
        "pilotlight convert folder/ all-ranks.pftrace",
    )

    def arguments(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument("input", type=Path, help="trace or folder of ranks")
        parser.add_argument("output", type=Path, help=".json, .json.gz or .pftrace, or a folder")
        parser.add_argument("--json", action="store_true", help="print one JSON object")

    def run(self, args: argparse.Namespace) -> int:
        from pilotlight.trace.kineto_writer import write_kineto
        from pilotlight.trace.perfetto_writer import write_perfetto
        from pilotlight.trace.reader import read_traces

        found = read_traces([args.input], os.cpu_count() or 1)
        for problem in found.problems:
            print(f"pilotlight convert: {problem}", file=sys.stderr)
        if not found.traces:
            raise FormatError(f"{args.input}: nothing to convert")
        single = args.output.name.endswith((".json", ".json.gz"))
        if single and len(found.traces) > 1:
            count = len(found.traces)
            raise UsageError(f"{args.output}: {count} ranks need a folder, not a file")
        written = []
        try:
            if not single and args.output.suffix not in PERFETTO_SUFFIXES:
                args.output.mkdir(parents=True, exist_ok=True)
            if args.output.suffix in PERFETTO_SUFFIXES:
                write_perfetto(found.traces, args.output)
                written.append(str(args.output))
            for trace in found.traces if not written else ():
                name = f"rank{trace.rank}.json.gz"
                path = args.output if single else args.output / name
                write_kineto(trace, path)
                written.append(str(path))
        except OSError as error:
            raise UsageError(f"{args.output}: cannot write: {error.strerror}") from None
        spans = sum(len(trace.spans) for trace in found.traces)
        if args.json:
            print(json.dumps({"files": written, "spans": spans}))
        else:
            print(f"{spans} spans in {len(written)} files")
        return 2 if found.problems else 0
