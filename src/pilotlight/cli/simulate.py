"""pilotlight simulate: traces of a job that never ran, with faults of known truth."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from pilotlight.errors import UsageError

if TYPE_CHECKING:
    from pilotlight.simulate.job import JobShape
    from pilotlight.trace.trace import Trace

# Flight-recorder dumps of a job that hangs, and the collective that it hangs in.
DUMPS = "dumps"
HUNG_COLLECTIVE = 1000


class Simulate:
    name = "simulate"
    help = "Write the traces of a simulated job, with faults if you like"
    examples = (
        "pilotlight simulate job.toml -o traces",
        "pilotlight simulate job.toml -o traces --fault slow_gpu:rank=3,x=1.2",
        "pilotlight simulate job.toml -o traces --fault hang_missing:rank=2",
        "pilotlight simulate job.toml -o simulated --format recording",
    )

    def arguments(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument(
            "job", type=Path, help="TOML file: ranks, steps, layers, times (docs/simulate.md)"
        )
        parser.add_argument("-o", "--output", type=Path, required=True, help="folder to write to")
        parser.add_argument(
            "--format",
            choices=("kineto", "recording"),
            default="kineto",
            help="a Kineto file a rank (default), or one recording of all ranks, labelled as"
            " simulated, that report, export and analyze open",
        )
        parser.add_argument(
            "--fault",
            action="append",
            default=[],
            metavar="KIND:rank=N,x=F",
            help="repeatable; one that there is not names those that there are",
        )
        parser.add_argument("--json", action="store_true", help="print one JSON object")

    def run(self, args: argparse.Namespace) -> int:
        from pilotlight.simulate.fault import FAULTS, parse_fault
        from pilotlight.simulate.hang import HANG_PREFIX, dump_text, dumps_of, parse_hangs
        from pilotlight.simulate.job import read_job
        from pilotlight.simulate.run import simulate, step_us
        from pilotlight.simulate.schedule import schedule

        shape = read_job(args.job)
        hung = [text for text in args.fault if text.startswith(HANG_PREFIX)]
        kind, stuck = parse_hangs(hung, shape.ranks) if hung else ("", ())
        told = [text for text in args.fault if text not in hung]
        faults = [parse_fault(text, shape) for text in told]
        for text, fault in zip(told, faults, strict=True):
            if fault.kind in FAULTS and fault.is_of_all_ranks and "rank=" in text:
                print(f"pilotlight simulate: {text}: is of all ranks, not of one", file=sys.stderr)
        traces = simulate(shape, faults)
        try:
            args.output.mkdir(parents=True, exist_ok=True)
            _WRITERS[args.format](args.job.stem, shape, traces, args.output)
            (args.output / "job.schedule").write_text(schedule(traces[0], faults), "utf-8")
            if stuck:
                (args.output / DUMPS).mkdir(exist_ok=True)
                for dump in dumps_of(kind, shape.ranks, stuck, HUNG_COLLECTIVE):
                    path = args.output / DUMPS / f"_dump_{dump.rank}.json"
                    path.write_text(dump_text(dump), "utf-8")
        except OSError as error:
            raise UsageError(f"{args.output}: cannot write: {error.strerror}") from None
        clean_us = step_us(simulate(shape)) if faults else step_us(traces)
        truth = {
            "step_us": step_us(traces),
            "step_without_faults_us": clean_us,
            "faults": [vars(fault) for fault in faults],
            "hang": {"kind": kind, "ranks": stuck} if stuck else None,
            "format": args.format,
            "files": len(traces) if args.format == "kineto" else 0,
        }
        if args.json:
            print(json.dumps(truth))
        else:
            print(f"{len(traces)} ranks in {args.output}, steps of {step_us(traces) / 1e3:.2f} ms")
            if faults:
                print(f"without the faults {clean_us / 1e3:.2f} ms")
            if stuck:
                print(f"then it hangs: pilotlight hang {args.output / DUMPS}")
        return 0


def _write_kineto(_: str, __: JobShape, traces: Sequence[Trace], folder: Path) -> None:
    from pilotlight.trace.kineto_writer import write_kineto
    from pilotlight.trace.recorded import is_recording

    if is_recording(folder):
        raise UsageError(f"{folder}: a recording; name another folder")
    for trace in traces:
        write_kineto(trace, folder / f"rank{trace.rank}.json.gz")


def _write_recording(name: str, shape: JobShape, traces: Sequence[Trace], folder: Path) -> None:
    from pilotlight.simulate.recorded import write_recording

    if any(folder.iterdir()):
        raise UsageError(f"{folder}: not empty; name a new folder for a recording")
    write_recording(name, shape, traces, folder)


_WRITERS = {"kineto": _write_kineto, "recording": _write_recording}
