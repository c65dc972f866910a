"""pilotlight roofline: how close kernels come to what the GPU can do."""

from __future__ import annotations

import argparse
import dataclasses
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from pilotlight.cli import terminal
from pilotlight.cli.reading import ReadingBar, add_memory
from pilotlight.errors import FormatError, UsageError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.console import Console, JustifyMethod

    from pilotlight.insights.job import Job
    from pilotlight.insights.measured import MeasuredKernels
    from pilotlight.insights.product import Product
    from pilotlight.insights.rank import RankView
    from pilotlight.insights.roofline import Roofline as Result

SHOWN_ROWS = 20
_KNOWN = {"high": "", "measured": "measured by ncu", "low": "a guess from its name and grid"}


class Roofline:
    name = "roofline"
    help = "Show how close operators come to the GPU's peak, and what limits them"
    examples = (
        "pilotlight roofline trace.json.gz",
        "pilotlight roofline trace.json.gz --gpu H100-SXM --json",
        "pilotlight roofline trace.json.gz --ncu counters.csv",
    )

    def arguments(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument(
            "path", type=Path, help="trace with shapes (record_shapes=True) or grids"
        )
        parser.add_argument("--rank", type=int, help="of several; the first if not given")
        parser.add_argument("--gpu", metavar="NAME", help="if the trace does not name it")
        parser.add_argument(
            "--ncu",
            type=Path,
            metavar="CSV",
            help="what `ncu --csv` measured of the same kernels: counts instead of the model",
        )
        add_memory(parser)
        parser.add_argument("--json", action="store_true", help="print one JSON object")
        parser.add_argument("--html", type=Path, metavar="FILE", help="write a page")

    def run(self, args: argparse.Namespace) -> int:
        from pilotlight.insights.job import job_of
        from pilotlight.insights.measured import NOT_MEASURED
        from pilotlight.insights.roofline import roofline
        from pilotlight.model.hardware import find_gpu, gpus
        from pilotlight.trace.bounded import bound_arrays
        from pilotlight.trace.reader import read_traces

        bound_arrays()
        with ReadingBar([args.path], quiet=args.json) as bar:
            found = read_traces([args.path], progress=bar.advance, memory_bytes=args.memory)
        for problem in found.problems:
            print(f"pilotlight roofline: {problem}", file=sys.stderr)
        view = _chosen(job_of(found.traces), args.rank, args.path)
        gpu = find_gpu(args.gpu or next(iter(view.trace.devices), ""))
        if gpu is None:
            names = ", ".join(gpus())
            raise UsageError(f"which GPU? --gpu with one of {names}")
        measured = self._measured(args.ncu, args.memory) if args.ncu else NOT_MEASURED
        operators = view.trace.detail.operators
        if not operators.kinds and not len(view.trace.detail.grids.blocks):
            raise FormatError(
                f"{args.path}: no shapes and no grids in it: record with torch.profiler and"
                " record_shapes=True, or with nsys"
            )
        result = roofline(view, operators, gpu, measured)
        if args.ncu and not result.measured_ratio:
            raise FormatError(f"{args.ncu}: no kernel with name and grid of one in {args.path}")
        if args.html:
            from pilotlight import __version__
            from pilotlight.web.onefile import one_file
            from pilotlight.web.roofs import answer_of

            answers = {"roofline": answer_of(result, gpu)}
            title = f"{args.path.name} · roofline · pilotlight"
            try:
                args.html.write_text(one_file(title, "#/roofline", answers, {}, __version__))
            except OSError as error:
                raise UsageError(f"{args.html}: cannot write: {error.strerror}") from None
        if args.json:
            print(json.dumps(dataclasses.asdict(result)))
            return 2 if found.problems else 0
        self._print(result)
        return 2 if found.problems else 0

    def _measured(self, path: Path, memory_bytes: int | None) -> MeasuredKernels:
        from pilotlight.insights.measured import measured_kernels
        from pilotlight.model.measured_cost import WANTED_METRICS
        from pilotlight.trace.reader import read_traces

        found = read_traces([path], memory_bytes=memory_bytes)
        for problem in found.problems:
            print(f"pilotlight roofline: {problem}", file=sys.stderr)
        if not found.traces or found.traces[0].format != "ncu":
            raise FormatError(f"{path}: not the output of ncu --csv")
        measured = measured_kernels(found.traces[0])
        if not measured.whole:
            metrics = ",".join(WANTED_METRICS)
            raise FormatError(f"{path}: no operations or bytes in it: ncu --metrics {metrics}")
        return measured

    def _print(self, result: Result) -> None:
        from rich.table import Table

        console = terminal.console(file_columns=160)
        table = Table(box=None, pad_edge=False)
        for head in ("operator, shapes", "count", "time", "achieved", "limit"):
            is_number = head in ("count", "time", "achieved")
            # Long names and reasons go on in the next line; numbers are never cut.
            side: JustifyMethod = "right" if is_number else "left"
            table.add_column(head, justify=side, no_wrap=is_number, overflow="fold")
        for row in result.rows[:SHOWN_ROWS]:
            reasons = filter(None, (row.reason, _KNOWN[row.confidence]))
            table.add_row(
                f"{row.operator.removeprefix('aten::')} {row.shapes}",
                str(row.count),
                f"{row.total_ns / 1e6:.2f} ms",
                f"{100 * row.roofline_ratio:.0f} %",
                f"{row.limit}: {'; '.join(reasons)}",
            )
        console.print(table)
        self._print_products(result.products, console)
        console.print(
            f"\nachieved: of what a {result.gpu} can in practice, by compute or by memory.\n"
            f"{result.gpu}: {_mfu(result)}"
        )

    def _print_products(self, products: Sequence[Product], console: Console) -> None:
        from rich.table import Table

        if not products:
            return
        table = Table(box=None, pad_edge=False)
        heads = ("product without shapes", "grid", "count", "time", "result, at most", "terms", "")
        for head in heads:
            right = head in ("count", "time", "result, at most", "terms")
            table.add_column(head, justify="right" if right else "left", overflow="fold")
        for row in products[:SHOWN_ROWS]:
            table.add_row(
                row.kernel,
                row.grid,
                str(row.count),
                f"{row.total_ns / 1e6:.2f} ms",
                "" if row.result_elements is None else f"{row.result_elements / 1e6:.2f} M",
                "" if row.most_terms is None else f"{row.most_terms:.0f}",
                row.reason,
            )
        console.print()
        console.print(table)


def _mfu(result: Result) -> str:
    covered = f"{100 * result.covered_ratio:.0f} % of the kernel time has a cost model"
    if not result.is_mfu_known:
        return f"MFU not known, only {covered}: record with record_shapes=True"
    measured = f", {100 * result.measured_ratio:.0f} % is measured" if result.measured_ratio else ""
    mfu = f"{100 * result.mfu_ratio:.1f} % of the datasheet's peak"
    if result.is_mfu_a_bound:
        unknown = (
            f"products of unknown size, {100 * result.products_ratio:.0f} % of it, not counted"
        )
        return f"MFU at least {mfu}; {covered}{measured}; {unknown}"
    return f"MFU {mfu}; {covered}{measured}"


def _chosen(job: Job, rank: int | None, path: Path) -> RankView:
    """One rank stands for all: they do the same."""
    if not job.ranks:
        raise FormatError(f"{path}: no device activity in it")
    known = {view.rank: view for view in job.ranks}
    if rank is not None and rank not in known:
        raise UsageError(f"--rank {rank}: ranks with device activity: {', '.join(map(str, known))}")
    view = job.ranks[0] if rank is None else known[rank]
    if rank is None and len(known) > 1:
        print(f"pilotlight roofline: rank {view.rank} of {len(known)} (--rank)", file=sys.stderr)
    return view
