"""pilotlight convert: one trace format to another."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from pilotlight.cli.reading import ReadingBar, add_memory
from pilotlight.errors import FormatError, UsageError

if TYPE_CHECKING:
    from pilotlight.trace.trace import Trace

# By the end of the output's name; a name that has none of these is a folder of Kineto files.
SUFFIXES = {
    ".speedscope.json": "speedscope",
    ".json": "kineto",
    ".json.gz": "kineto",
    ".pftrace": "perfetto",
    ".perfetto-trace": "perfetto",
    ".parquet": "parquet",
    ".pb.gz": "pprof",
    ".pprof": "pprof",
}
# Names of files that are read or that others write: nobody means a folder by them.
_NOT_WRITTEN = (
    ".sqlite", ".db", ".rpd", ".nsys-rep", ".qdrep", ".ncu-rep", ".pb", ".trace", ".csv", ".txt",
    ".html", ".gz", ".zst", ".zip", ".tar", ".tgz", ".arrow", ".feather", ".pkl", ".pickle",
)  # fmt: skip
FORMATS = ("kineto", "perfetto", "parquet", "pprof", "speedscope")


class Convert:
    name = "convert"
    help = "Write traces of any format as Kineto JSON, Perfetto, Parquet, pprof or speedscope"
    examples = (
        "pilotlight convert report.sqlite trace.json.gz",
        "pilotlight convert ranks.tar.gz folder/",
        "pilotlight convert folder/ all-ranks.pftrace",
        "pilotlight convert trace.json.gz spans.parquet",
        "pilotlight convert x.xplane.pb profile.pb.gz",
    )

    def arguments(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument("input", type=Path, help="trace, recording or folder of ranks")
        parser.add_argument(
            "output",
            type=Path,
            help=", ".join(SUFFIXES) + ", or a folder for a Kineto file a rank",
        )
        parser.add_argument("--to", choices=FORMATS, help="if the name of OUTPUT does not say")
        add_memory(parser)
        parser.add_argument("--json", action="store_true", help="print one JSON object")

    def run(self, args: argparse.Namespace) -> int:
        from pilotlight.trace.bounded import bound_arrays
        from pilotlight.trace.reader import read_traces

        bound_arrays()
        with ReadingBar([args.input], quiet=args.json) as bar:
            found = read_traces([args.input], progress=bar.advance, memory_bytes=args.memory)
        for problem in found.problems:
            print(f"pilotlight convert: {problem}", file=sys.stderr)
        if not found.traces:
            raise FormatError(f"{args.input}: nothing to convert")
        try:
            written = _write(found.traces, args.output, args.to)
        except OSError as error:
            raise UsageError(f"{args.output}: cannot write: {error.strerror}") from None
        spans = sum(len(trace.spans) for trace in found.traces)
        if args.json:
            print(json.dumps({"files": [str(path) for path in written], "spans": spans}))
        else:
            print(f"{spans} spans in {len(written)} file{'s' * (len(written) != 1)}")
        return 2 if found.problems else 0


def _write(traces: Sequence[Trace], output: Path, asked: str | None) -> list[Path]:
    by_name = next((SUFFIXES[end] for end in SUFFIXES if output.name.endswith(end)), None)
    if by_name is None and not asked and output.suffix in _NOT_WRITTEN and not output.is_dir():
        raise UsageError(
            f"{output}: {output.suffix} is not written; a name that ends with"
            f" {', '.join(SUFFIXES)}, or a folder"
        )
    chosen = asked or by_name or "kineto"
    if chosen == "kineto":
        return _write_kineto(traces, output, is_file=by_name is not None)
    if output.is_dir():
        raise UsageError(f"{output}: a folder; {chosen} is one file for all ranks")
    if chosen == "perfetto":
        from pilotlight.trace.perfetto_writer import write_perfetto as write
    elif chosen == "parquet":
        from pilotlight.trace.parquet_writer import write_parquet as write
    elif chosen == "pprof":
        from pilotlight.trace.pprof_writer import write_pprof as write
    else:
        from pilotlight.trace.speedscope_writer import write_speedscope as write
    write(traces, output)
    return [output]


def _write_kineto(traces: Sequence[Trace], output: Path, *, is_file: bool) -> list[Path]:
    from pilotlight.trace.kineto_writer import write_kineto

    if is_file and len(traces) > 1:
        raise UsageError(f"{output}: {len(traces)} ranks need a folder, not a file")
    if is_file:
        write_kineto(traces[0], output)
        return [output]
    output.mkdir(parents=True, exist_ok=True)
    paths = [output / f"rank{trace.rank}.json.gz" for trace in traces]
    for trace, path in zip(traces, paths, strict=True):
        write_kineto(trace, path)
    return paths
