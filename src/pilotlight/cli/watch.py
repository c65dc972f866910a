"""`pilotlight watch JOB`: the steps of every rank as they happen, and what they are made of."""

from __future__ import annotations

import argparse
import json
import sys
import time
from typing import TYPE_CHECKING, Any

from pilotlight.cli.terminal import console
from pilotlight.cli.top import milliseconds, percent, select_job
from pilotlight.client import Client
from pilotlight.errors import NotFound, UsageError

if TYPE_CHECKING:
    from rich.table import Table

PHASES = ("data", "forward", "backward", "optimizer", "communication", "checkpoint")
_REFRESH_S = 1.0
_MOST_ROWS = 40


class Watch:
    name = "watch"
    help = "Show live the steps and phases of every rank of a job."
    examples = (
        "pilotlight watch nightly",
        "pilotlight watch nightly --json | jq .slowest_rank",
        "pilotlight watch nightly --seconds 60",
    )

    def arguments(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument("job", nargs="?", metavar="JOB", help="the job (default: the only one)")
        parser.add_argument("--json", action="store_true", help="a line of JSON a second")
        parser.add_argument("--seconds", type=float, metavar="S", help="end after that long")

    def run(self, args: argparse.Namespace) -> int:
        with Client() as client:
            job = args.job or _only_job(client.ask("status"))
            show: _Screen | _Lines
            if args.json:
                show = _Lines(as_json=True)
            elif sys.stdout.isatty():
                show = _Screen()
            else:
                show = _Lines(as_json=False)
            end = time.monotonic() + args.seconds if args.seconds is not None else float("inf")
            with show:
                # The first look has no rates yet: those are from one look to the next.
                select_job(client.ask("status"), job)
                while time.monotonic() < end:
                    time.sleep(_REFRESH_S)
                    status = client.ask("status")
                    if job not in [entry["job"] for entry in status["jobs"]]:
                        return 0
                    show.show(view_of(select_job(status, job), job))
        return 0


def _only_job(status: dict[str, Any]) -> str:
    names = [str(entry["job"]) for entry in status["jobs"]]
    if not names:
        raise NotFound("no job is being recorded; start one: pilotlight run -- python train.py")
    if len(names) > 1:
        raise UsageError(f"which job? {', '.join(names[:8])}")
    return names[0]


def view_of(status: dict[str, Any], job: str) -> dict[str, Any]:
    """What there is to say of one second; processes that do not step are only counted."""
    stepping = [process for process in status["processes"] if process["steps"] or process["phases"]]
    ranks = [
        {
            "rank": process["rank"],
            "pid": process["pid"],
            "step": process["step"],
            "step_ns": process["step_ns"],
            "since_step_ns": process["since_step_ns"],
            "steps_per_s": process["steps_per_s"],
            "phases": {
                **{name: process["phases"].get(name, 0.0) for name in PHASES},
                "other": round(max(0.0, 1.0 - sum(process["phases"].values())), 4),
            },
            "dropped": process["dropped"],
        }
        for process in sorted(stepping, key=_order)
    ]
    slowest = max(ranks, key=lambda rank: rank["step_ns"], default=None)
    behind = min(ranks, key=lambda rank: rank["step"], default=None)
    return {
        "job": job,
        "time_s": round(time.time(), 3),
        "ranks": ranks,
        "slowest_rank": slowest["rank"] if slowest else None,
        "behind_rank": behind["rank"] if behind else None,
        "steps_apart": max((rank["step"] for rank in ranks), default=0) - behind["step"]
        if behind
        else 0,
        "other_processes": len(status["processes"]) - len(ranks),
    }


def _order(process: dict[str, Any]) -> tuple[bool, int, int]:
    rank = process["rank"]
    return rank is None, rank if isinstance(rank, int) else 0, process["pid"]


class _Lines:
    """For a file or a pipe: a line a rank and second, or one of JSON a second."""

    def __init__(self, as_json: bool) -> None:
        self._as_json = as_json

    def __enter__(self) -> _Lines:
        return self

    def __exit__(self, *_: object) -> None:
        return None

    def show(self, view: dict[str, Any]) -> None:
        if self._as_json:
            print(json.dumps(view), flush=True)
            return
        for rank in view["ranks"]:
            parts = [f"{name} {percent(share)}" for name, share in rank["phases"].items() if share]
            name = f"rank {rank['rank']}" if rank["rank"] is not None else f"pid {rank['pid']}"
            text = f"{name} step {rank['step']} {milliseconds(rank['step_ns'])}"
            print("  ".join([text, f"{rank['steps_per_s']:.2f}/s", *parts]), flush=True)


class _Screen:
    """A table that is drawn again each second."""

    def __enter__(self) -> _Screen:
        from rich.live import Live

        self._live = Live(auto_refresh=False, console=console())
        self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._live.stop()

    def show(self, view: dict[str, Any]) -> None:
        self._live.update(table_of(view), refresh=True)


def table_of(view: dict[str, Any]) -> Table:
    """Of very many ranks the slowest."""
    from rich.table import Table

    ranks = view["ranks"]
    left_out = len(ranks) - _MOST_ROWS
    if left_out > 0:
        slowest = sorted(ranks, key=lambda rank: -rank["step_ns"])[:_MOST_ROWS]
        ranks = [rank for rank in ranks if rank in slowest]
    title = f"{view['job']}: {len(view['ranks'])} stepping, {view['other_processes']} others"
    if left_out > 0:
        title += f"; the {_MOST_ROWS} slowest are shown"
    if view["steps_apart"] > 1:
        title += f"; rank {view['behind_rank']} is {view['steps_apart']} steps behind"
    table = Table(title=title, title_justify="left", box=None, pad_edge=False)
    shown = [name for name in (*PHASES, "other") if any(rank["phases"][name] for rank in ranks)]
    for column in ("rank", "step", "last step", "steps/s", *shown):
        table.add_column(column, justify="right", no_wrap=True)
    for rank in ranks:
        label = str(rank["rank"]) if rank["rank"] is not None else f"pid {rank['pid']}"
        if rank["rank"] == view["slowest_rank"] and len(ranks) > 1:
            label += " slowest"
        table.add_row(
            label,
            str(rank["step"]),
            milliseconds(rank["step_ns"]),
            f"{rank['steps_per_s']:.2f}",
            *(percent(rank["phases"][name]) for name in shown),
        )
    return table
