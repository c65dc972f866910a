"""pilotlight analyze: what makes a job slow, from its traces."""

from __future__ import annotations

import argparse
import json
import sys
from collections import Counter
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING, Any

from pilotlight.cli import terminal
from pilotlight.cli.analyze_findings import print_findings
from pilotlight.cli.analyze_hosts import print_hosts, step_line
from pilotlight.cli.reading import ReadingBar, add_memory
from pilotlight.errors import UsageError
from pilotlight.printable import one_line
from pilotlight.report.units import duration

if TYPE_CHECKING:
    from rich.console import Console

    from pilotlight.analysis import Analysis

SHOWN_RANKS = 16
SHOWN_ROWS = 50


class Analyze:
    name = "analyze"
    help = "Say what makes a job slow, from traces of torch.profiler or Nsight Systems"
    examples = (
        "pilotlight analyze trace.json.gz",
        "pilotlight analyze traces/ --html report.html",
        "pilotlight analyze traces/ --serve",
        "pilotlight analyze today/ --serve --against yesterday/",
        "pilotlight analyze trace.json.gz --table stacks",
        "pilotlight analyze rank*.json.gz --json | jq '.findings[].title'",
    )

    def arguments(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument("paths", nargs="+", type=Path, help="files or folders, one job")
        parser.add_argument("--json", action="store_true", help="print one JSON object")
        parser.add_argument(
            "--table",
            metavar="NAME",
            help="print one table instead: ranks, steps, kernels, categories, modules, operators,"
            " stacks, launches, communication, groups, clocks, memory, critical_path, hosts,"
            " host_operators, host_functions, stalls, units, kernel_metrics",
        )
        parser.add_argument("--gpu", metavar="NAME", help="if the trace does not name it")
        add_memory(parser)
        parser.add_argument("--html", type=Path, metavar="FILE", help="write a page")
        parser.add_argument("--serve", action="store_true", help="show it in the browser")
        parser.add_argument("--port", type=int, default=0, help="for --serve; any free one if 0")
        parser.add_argument(
            "--against",
            type=Path,
            metavar="PATH",
            help="for --serve: traces of another run, to compare flame graphs with",
        )

    def run(self, args: argparse.Namespace) -> int:
        from pilotlight.analysis import analyze

        if args.against and not args.serve:
            raise UsageError("--against needs --serve; `pilotlight diff` compares in the terminal")
        with ReadingBar(args.paths, quiet=args.json) as bar:
            found = analyze(args.paths, bar.advance, args.memory, args.gpu)
        for problem in found.problems:
            print(f"pilotlight analyze: {problem}", file=sys.stderr)
        if args.html:
            try:
                args.html.write_text(found.to_html(_title(args.paths)), encoding="utf-8")
            except OSError as error:
                raise UsageError(f"{args.html}: cannot write: {error.strerror}") from None
        if args.serve:
            return _serve(found, args)
        if args.table:
            rows = found.table(args.table)
            print(json.dumps(rows)) if args.json else _print_table(rows)
        elif args.json:
            print(json.dumps(found.to_dict()))
        else:
            _print(found)
        return 2 if found.problems else 0


def _title(paths: list[Path]) -> str:
    return paths[0].name if len(paths) == 1 else f"{paths[0].name} and {len(paths) - 1} more"


def _serve(found: Analysis, args: argparse.Namespace) -> int:
    """On this machine only, until Ctrl-C."""
    import webbrowser

    try:
        from pilotlight.web.viewer import bound_socket, serve_library
    except ImportError as error:
        raise UsageError(f"--serve needs {error.name}: pip install 'pilotlight[server]'") from None
    from pilotlight.web.library import Library
    from pilotlight.web.opened import OpenTrace

    library = Library()
    opened = OpenTrace("0", _title(args.paths), found)
    # Laid out before anybody looks: the first view must not wait for it.
    assert opened.answer is not None
    library.keep(opened)
    view = ""
    if args.against:
        from pilotlight.analysis import analyze

        with ReadingBar([args.against], quiet=False) as bar:
            other = analyze([args.against], bar.advance, args.memory, args.gpu)
        library.keep(OpenTrace("1", args.against.name, other))
        view = "/flame?against=trace:1"
    try:
        bound = bound_socket(args.port)
    except OSError as error:
        raise UsageError(f"--port {args.port}: {error.strerror}") from None
    address = f"http://127.0.0.1:{bound.getsockname()[1]}/#/trace/0{view}"
    print(f"{address}  (Ctrl-C ends it)", flush=True)
    if sys.stdout.isatty():
        webbrowser.open(address)
    serve_library(library, bound)
    return 0


def _print(found: Analysis) -> None:
    console = terminal.console()
    if not found.job.traces:
        console.print("No trace could be read.")
        return
    from pilotlight.web.headline import headline

    console.print(one_line(headline(found)), style="bold", highlight=False, markup=False)
    console.print()
    if found.job.ranks:
        _print_breakdown(found, console)
    else:
        print_hosts(found, console)
    _print_samples(found, console)
    print_findings(found, console)


def _print_samples(found: Analysis, console: Console) -> None:
    """What hardware sampling saw, of recordings that have some."""
    from pilotlight.report.gpu_tables import print_hardware, print_kernels, print_stalls

    print_stalls(found.samples.stalls, console)
    print_hardware(found.samples.units, lambda process: f"process {process}", console)
    print_kernels(found.samples.kernels, console)


def _print_table(rows: list[dict[str, Any]]) -> None:
    from rich.table import Table

    if not rows:
        print("nothing of this in the traces")
        return
    table = Table(box=None, pad_edge=False)
    for title, value in rows[0].items():
        is_number = isinstance(value, int | float)
        table.add_column(title, justify="right" if is_number else "left", overflow="fold")
    for row in rows[:SHOWN_ROWS]:
        table.add_row(*map(_cell, row.values()))
    terminal.console(file_columns=200).print(table)
    if len(rows) > SHOWN_ROWS:
        print(f"... and {len(rows) - SHOWN_ROWS} rows more (--json)")


def _cell(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:.4g}"
    if isinstance(value, tuple | list):
        return " > ".join(map(str, value if len(value) <= 5 else ("...", *value[-4:])))
    if isinstance(value, dict):
        return ", ".join(f"{key} {_cell(part)}" for key, part in value.items() if part)
    return "" if value is None else str(value)


def _print_lines(found: Analysis, console: Console) -> None:
    """What the table has no place for."""
    rows = found.table("launches")
    known = [row for row in rows if row["median_issue_ns"] is not None]
    if known:
        worst = max(known, key=lambda row: row["void_ratio"])
        console.print(
            f"launches: {duration(worst['median_issue_ns'])} from call to kernel, queue of"
            f" {worst['median_queue_length']:.0f}, {100 * worst['void_ratio']:.1f} % of the time"
            f" without a kernel (rank {worst['rank']})"
        )
    rows = found.table("communication")
    if rows:
        waiting, transfer = (
            sum(row[key] for row in rows) / len(rows) / 1e6 for key in ("waiting_ns", "transfer_ns")
        )
        rates = [row for row in found.table("groups") if row["bus_gb_per_s"]]
        bus = f", {rates[0]['bus_gb_per_s']:.1f} GB/s over the bus" if rates else ""
        console.print(
            f"communication: {waiting:.2f} ms waiting for the last rank, {transfer:.2f} ms transfer"
            f" (mean of the ranks){bus}"
        )
        clocks = found.table("clocks")
        apart = max(abs(row["ahead_ns"]) for row in clocks)
        console.print(
            f"clocks of the ranks: up to {apart / 1e3:.1f} µs apart, known to"
            f" {clocks[0]['uncertainty_ns'] / 1e3:.1f} µs"
        )
    path = found.table("critical_path")
    if path:
        roles: dict[str, float] = {}
        for row in path:
            roles[row["role"]] = roles.get(row["role"], 0.0) + row["ratio"]
        parts = sorted(roles.items(), key=lambda item: -item[1])
        text = ", ".join(f"{role} {100 * ratio:.1f} %" for role, ratio in parts if ratio > 0.005)
        console.print(f"critical path: {text}")


def _print_kinds(found: Analysis, console: Console) -> None:
    """Exposed communication of all ranks by kind, where there are several."""
    from pilotlight.insights.kernel import ANY_COMMUNICATION

    totals: Counter[str] = Counter()
    for view in found.job.ranks:
        totals.update(view.whole.exposed_communication_by_kind_ns)
    windows_ns = sum(view.whole.window_ns for view in found.job.ranks) or 1
    if ANY_COMMUNICATION in totals:
        totals["kind not told"] = totals.pop(ANY_COMMUNICATION)
    shares = [f"{kind} {100 * ns / windows_ns:.1f} %" for kind, ns in totals.most_common() if ns]
    if len(shares) > 1:
        console.print(f"exposed communication: {', '.join(shares)}", highlight=False)


def _print_breakdown(found: Analysis, console: Console) -> None:
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, pad_edge=False)
    heads = (
        "rank",
        "window",
        "compute",
        "exposed\ncomm",
        "exposed\ncopies",
        "idle",
        "idle because of",
    )
    for head in heads:
        table.add_column(Text(head), justify="left" if head == heads[-1] else "right")
    for view in found.job.ranks[:SHOWN_RANKS]:
        row = view.whole
        window_ns = row.window_ns or 1
        parts = (row.compute_ns, row.exposed_communication_ns, row.exposed_copy_ns, row.idle_ns)
        causes = sorted(row.idle_by_cause_ns.items(), key=lambda item: -item[1])
        named = [
            f"{name} {100 * ns / window_ns:.1f} %" for name, ns in causes if ns > 0.005 * window_ns
        ]
        table.add_row(
            str(row.rank),
            f"{row.window_ns / 1e6:.1f} ms",
            *(f"{100 * part / window_ns:.1f} %" for part in parts),
            ", ".join(named),
        )
    console.print(table)
    if len(found.job.ranks) > SHOWN_RANKS:
        console.print(f"... and {len(found.job.ranks) - SHOWN_RANKS} ranks more (--json)")
    steps = found.job.step_count
    if steps:
        idle = fmean(view.all_idle_ratio for view in found.job.ranks)
        line = step_line(steps, found.job.step_ns)
        console.print(f"{line}; the device idles {100 * idle:.1f} % of the step")
    else:
        console.print(f"no steps in the trace: all of it, {duration(found.job.step_ns)}, is one")
    _print_kinds(found, console)
    _print_lines(found, console)
