"""pilotlight diff: what changed between two runs."""

from __future__ import annotations

import argparse
import dataclasses
import json
import math
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pilotlight.cli import terminal
from pilotlight.cli.reading import ReadingBar, add_memory
from pilotlight.errors import UsageError
from pilotlight.printable import one_line

if TYPE_CHECKING:
    from pilotlight.insights.difference import Change, Difference

LONGEST_NAME = 100


class Diff:
    name = "diff"
    help = "Show what changed between two runs, and whether it is noise"
    examples = (
        "pilotlight diff before.json.gz after.json.gz",
        "pilotlight diff runs/a runs/b --fail-if 'step_time>3%'",
    )

    def arguments(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument("before", type=Path, help="trace or folder of ranks")
        parser.add_argument("after", type=Path, help="trace or folder of ranks")
        parser.add_argument(
            "--fail-if",
            action="append",
            default=[],
            metavar="METRIC>N%",
            help="exit with 1 if a part of the step grew by more, and not by noise",
        )
        add_memory(parser)
        parser.add_argument("--json", action="store_true", help="print one JSON object")

    def run(self, args: argparse.Namespace) -> int:
        from pilotlight.insights.difference import difference, parse_limit
        from pilotlight.insights.job import job_of
        from pilotlight.trace.bounded import bound_arrays
        from pilotlight.trace.reader import read_traces

        bound_arrays()
        limits = [parse_limit(text) for text in args.fail_if]
        paths = (args.before, args.after)
        with ReadingBar(paths, quiet=args.json) as bar:
            sets = [
                read_traces([path], progress=bar.advance, memory_bytes=args.memory)
                for path in paths
            ]
        problems = [problem for each in sets for problem in each.problems]
        for problem in problems:
            print(f"pilotlight diff: {problem}", file=sys.stderr)
        found = difference(*(job_of(each.traces) for each in sets))
        by_name = {change.what: change for change in found.parts}
        for limit in limits:
            if limit.metric not in by_name:
                raise UsageError(f"--fail-if {limit.metric}: not without device activity")
        exceeded = [limit for limit in limits if limit.is_exceeded(by_name[limit.metric])]
        if args.json:
            print(json.dumps(_plain(found, [limit.metric for limit in exceeded])))
        else:
            _print(found)
            for limit in exceeded:
                print(f"failed: {limit.metric} grew by more than {100 * limit.ratio:g} %")
        if problems:
            return 2
        return 1 if exceeded else 0


def _plain(found: Difference, exceeded: list[str]) -> dict[str, Any]:
    def rows(changes: tuple[Change, ...]) -> list[dict[str, Any]]:
        return [
            {
                **dataclasses.asdict(change),
                "ratio": change.ratio if math.isfinite(change.ratio) else None,
                "is_noise": change.is_noise,
            }
            for change in changes
        ]

    return {
        "parts": rows(found.parts),
        f"{found.item}s": rows(found.items),
        "steps_before": found.steps_before,
        "steps_after": found.steps_after,
        "has_steps": found.has_steps,
        "detectable_ratio": found.detectable_ratio,
        "failed": exceeded,
    }


def _print(found: Difference) -> None:
    from rich.table import Table

    console = terminal.console()
    for title, changes in (("a step", found.parts), (f"{found.item}, a step", found.items)):
        if not changes:
            continue
        rows = [_row(change) for change in changes if change.before_ns or change.after_ns]
        heads = (title, "before", "after", "change", "")
        widths = [max(map(len, column)) for column in zip(heads, *rows, strict=True)]
        # Names give way, numbers never.
        room = max(10, console.width - sum(widths[1:]) - 2 * len(widths))
        table = Table(box=None, pad_edge=False)
        for head in heads:
            table.add_column(head, justify="left" if head == title else "right", no_wrap=True)
        for name, *numbers in rows:
            table.add_row(_cut(name, min(room, LONGEST_NAME)), *numbers)
        console.print(table)
        console.print()
    steps = f"{found.steps_before} and {found.steps_after} steps"
    if not found.has_steps:
        console.print("a side has no steps: there all of the trace counts as one")
    elif found.detectable_ratio is None:
        console.print(f"{steps}: too few to tell a change from noise")
    else:
        detectable = f"{100 * found.detectable_ratio:.1f} %"
        console.print(f"{steps}: changes of the step time from {detectable} on are seen surely")


def _cut(name: str, columns: int) -> str:
    return name if len(name) <= columns else f"{name[: columns - 1]}…"


def _row(change: Change) -> tuple[str, ...]:
    relative = f"{100 * change.ratio:+.1f} %" if math.isfinite(change.ratio) else "new"
    before, after = (f"{ns / 1e6:.3f} ms" for ns in (change.before_ns, change.after_ns))
    return one_line(change.what), before, after, relative, "noise" if change.is_noise else ""
