"""pilotlight whatif: what a change would gain, by replay."""

from __future__ import annotations

import argparse
import dataclasses
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from pilotlight.cli.reading import ReadingBar, add_memory
from pilotlight.errors import FormatError, UsageError

if TYPE_CHECKING:
    from pilotlight.insights.job import Job
    from pilotlight.model.hardware import Gpu


class Whatif:
    name = "whatif"
    help = "Replay a job with something removed, scaled, or on another GPU"
    examples = (
        "pilotlight whatif trace.json.gz --remove loader",
        "pilotlight whatif trace.json.gz --kernel 'gemm=0.5x' --gpu H200-SXM",
        "pilotlight whatif ranks/ --overlap comm --bandwidth 2x",
        "pilotlight whatif trace.json.gz --batch 2x",
        "pilotlight whatif operations.parquet --remove straggler",
    )

    def arguments(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument("path", type=Path, help="trace, folder of ranks, or operation rows")
        parser.add_argument(
            "--remove",
            action="append",
            default=[],
            metavar="CAUSE",
            help="loader, gc, compile, checkpoint, comm-wait, sync, allocation, launch,"
            " exposed-comm, copies, straggler",
        )
        parser.add_argument(
            "--kernel", action="append", default=[], metavar="REGEX=FACTORx", help="scale kernels"
        )
        parser.add_argument("--gpu", metavar="[FROM:]NAME", help="as if on this GPU")
        parser.add_argument("--overlap", choices=("comm",), help="hide it behind compute")
        parser.add_argument("--bandwidth", metavar="FACTORx", help="links that carry as much more")
        parser.add_argument("--batch", metavar="FACTORx", help="as many times the samples a step")
        add_memory(parser)
        parser.add_argument("--json", action="store_true", help="print one JSON object")

    def run(self, args: argparse.Namespace) -> int:
        if not any((args.remove, args.kernel, args.gpu, args.overlap, args.bandwidth, args.batch)):
            raise UsageError(
                "nothing to change: --remove, --kernel, --gpu, --overlap, --bandwidth or --batch"
            )
        from pilotlight.trace.oprows import has_operation_rows

        if has_operation_rows(args.path):
            return _operation_rows(args)
        return _recorded(args)


def _recorded(args: argparse.Namespace) -> int:
    from pilotlight.insights.job import job_of, steady_part
    from pilotlight.insights.recorded_graph import recorded_graph
    from pilotlight.insights.whatif import (
        WAITS,
        Whatif,
        at_bandwidth,
        at_batch,
        communicates,
        least_ns,
        on_gpu,
        overlapped_ns,
        parse_factor,
        parse_scale,
        scaled,
        without,
    )
    from pilotlight.trace.bounded import bound_arrays
    from pilotlight.trace.reader import read_traces

    bound_arrays()
    scales = [parse_scale(text) for text in args.kernel]
    bandwidth = parse_factor("--bandwidth", args.bandwidth) if args.bandwidth else None
    batch = parse_factor("--batch", args.batch) if args.batch else None
    with ReadingBar([args.path], quiet=args.json) as bar:
        found = read_traces([args.path], progress=bar.advance, memory_bytes=args.memory)
    for problem in found.problems:
        print(f"pilotlight whatif: {problem}", file=sys.stderr)
    job = job_of(found.traces)
    if not job.ranks:
        raise FormatError(f"{args.path}: no device activity to replay")
    steady = steady_part(job)
    graph = recorded_graph(steady)
    after, changed = graph, graph.duration_ns
    notes = []
    for cause in args.remove:
        before = changed
        after = after.without_waits(cause) if cause in WAITS else after
        changed = without(graph, changed, cause)
        if not (graph.waits(cause).any() if cause in WAITS else (changed != before).any()):
            notes.append(f"--remove {cause}: none of it in the trace")
    changed = scaled(graph, changed, scales)
    if (args.overlap or bandwidth) and not communicates(graph):
        notes.append("no communication in the trace")
    if bandwidth:
        changed = at_bandwidth(graph, changed, bandwidth)
    if batch:
        changed = at_batch(graph, changed, batch)
    if args.gpu:
        changed = on_gpu(graph, changed, *_gpus(args.gpu, job.ranks[0].trace.devices))
    replayed_ns = graph.total_ns(graph.duration_ns)
    changed_ns = overlapped_ns(after, changed) if args.overlap else after.total_ns(changed)
    changed_ns = max(changed_ns, min(replayed_ns, least_ns(steady, graph, changed)))
    result = Whatif(graph.measured_ns, replayed_ns, changed_ns, batch or 1.0)
    if args.json:
        ratios = {"gain_ratio": result.gain_ratio, "replay_error_ratio": result.replay_error_ratio}
        print(json.dumps({**dataclasses.asdict(result), **ratios, "notes": notes}))
    else:
        print(f"recorded    {result.measured_ns / 1e6:.3f} ms{_steps_told(job, steady)}")
        print(f"replayed    {result.replayed_ns / 1e6:.3f} ms"
              f"   (error {100 * result.replay_error_ratio:.2f} %)")  # fmt: skip
        print(f"changed     {result.changed_ns / 1e6:.3f} ms")
        samples = " for each sample" if batch else ""
        print(f"gain        {result.gain_text}{samples}")
        for note in notes:
            print(f"note        {note}")
    return 2 if found.problems else 0


def _steps_told(job: Job, steady: Job) -> str:
    """Which part of the trace is replayed: the part that `analyze` prices its findings with."""
    steps, all_steps = steady.step_count, job.step_count
    if not steps:
        return ""
    without_first = ", without the first" if steps < all_steps else ""
    # A rank's own step is shorter, where ranks begin and end at different times.
    ranks = f"; {len(steady.ranks)} ranks, from the earliest begin to the latest end"
    whole = ranks if len(steady.ranks) > 1 else ""
    return f"   ({steps} step{'s' if steps > 1 else ''}{without_first}{whole})"


def _gpus(text: str, devices: Sequence[str]) -> tuple[Gpu, Gpu]:
    """From which to which; the trace tells the first if the text does not."""
    from pilotlight.model.hardware import find_gpu, gpus

    told, _, target = text.rpartition(":")
    found = []
    for name in (told or next(iter(devices), ""), target):
        gpu = find_gpu(name) if name else None
        if gpu is None and name:
            raise UsageError(f"--gpu: {name} is not known; one of {', '.join(gpus())}")
        if gpu is None:
            raise UsageError(f"--gpu: the trace does not say which it ran on: --gpu FROM:{target}")
        found.append(gpu)
    return found[0], found[1]


def _operation_rows(args: argparse.Namespace) -> int:
    from pilotlight.insights.slowdown import slowdown
    from pilotlight.model.pipeline import pipeline_of
    from pilotlight.trace.oprows import read_operation_rows

    others = (args.kernel, args.gpu, args.overlap, args.bandwidth, args.batch)
    if args.remove != ["straggler"] or any(others):
        raise UsageError("of operation rows only --remove straggler is possible")
    report = slowdown(pipeline_of(read_operation_rows(args.path)))
    culprit = report.culprit
    if args.json:
        plain = dataclasses.asdict(report)
        found = {"culprit": culprit, "slow_stage": report.slow_stage}
        told = {name: dataclasses.asdict(row) if row else None for name, row in found.items()}
        print(json.dumps({**plain, **told}))
        return 0
    print(f"step, recorded            {report.measured_step_ns / 1e9:.3f} s")
    print(f"step, replayed            {report.replayed_step_ns / 1e9:.3f} s"
          f"   (error {100 * report.replay_error_ratio:.2f} %)")  # fmt: skip
    print(f"step, all ranks alike     {report.ideal_step_ns / 1e9:.3f} s")
    print(f"slowdown                  {report.slowdown_ratio:.3f}")
    slow_stage = report.slow_stage
    if culprit:
        place = f"data rank {culprit.data_rank}, stage {culprit.stage}"
        print(f"at fault                  rank {culprit.rank} ({place})")
        print(f"gain without it           {100 * culprit.gain_ratio:.1f} % of the step")
    elif slow_stage:
        print(f"no single rank explains it: stage {slow_stage.stage} has more work than the others")
        print(f"gain if it had not        {100 * slow_stage.gain_ratio:.1f} % of the step")
    else:
        print("neither a single rank nor a stage explains it")
    for name, ratio in sorted(report.kinds.items(), key=lambda item: -item[1])[:3]:
        print(f"  {name:<28}{ratio:.3f} times as long as with typical ones")
    return 0
