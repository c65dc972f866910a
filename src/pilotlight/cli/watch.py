"""`pilotlight watch JOB`: the steps of every rank as they happen, and what they are made of."""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import time
from typing import TYPE_CHECKING, Any

from pilotlight.cli.terminal import console
from pilotlight.cli.top import percent, processes, select_job
from pilotlight.client import Client
from pilotlight.errors import NotFound, UsageError
from pilotlight.report.units import duration

if TYPE_CHECKING:
    from rich.console import Group

PHASES = ("data", "forward", "backward", "optimizer", "communication", "checkpoint")
_REFRESH_S = 1.0
_MOST_ROWS = 40
# Steps of ranks that wait for each other differ by less.
_SLOW_RATIO = 1.1
# As long without a step as a capture takes for hung.
_STILL_NS = 10_000_000_000
_STILL_STEPS = 8
# A phase that has lasted for longer than two looks is worth a word.
_LONG_NS = 2_000_000_000


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
    """What there is to say of one second; processes that do not step are only counted, but for
    ranks: one that never began its first step may be the one that the others wait for."""
    stepping = [
        process
        for process in status["processes"]
        if process["steps"] or process["phases"] or process["role"] == "rank"
    ]
    ranks = [
        {
            "rank": process["rank"],
            "pid": process["pid"],
            "steps": process["steps"],
            "step": process["step"],
            "step_ns": process["step_ns"],
            "since_step_ns": process["since_step_ns"],
            "is_still": _is_still(process),
            "steps_per_s": process["steps_per_s"],
            "phases": {
                **{name: process["phases"].get(name, 0.0) for name in PHASES},
                "other": round(max(0.0, 1.0 - sum(process["phases"].values())), 4),
            },
            "phase": process["phase"],
            "dropped": process["dropped"],
        }
        for process in sorted(stepping, key=_order)
    ]
    slowest = max(
        (rank for rank in ranks if rank["steps"]), key=lambda rank: rank["step_ns"], default=None
    )
    # Processes that no launcher numbered do not step together.
    together = [rank for rank in ranks if rank["rank"] is not None and rank["steps"]]
    behind = min(together, key=lambda rank: rank["step"], default=None)
    return {
        "job": job,
        "time_s": round(time.time(), 3),
        "ranks": ranks,
        "slowest_rank": slowest["rank"] if slowest else None,
        "behind_rank": behind["rank"] if behind else None,
        "steps_apart": max(rank["step"] for rank in together) - behind["step"] if behind else 0,
        "other_processes": len(status["processes"]) - len(ranks),
    }


def _order(process: dict[str, Any]) -> tuple[bool, int, int]:
    rank = process["rank"]
    return rank is None, rank if isinstance(rank, int) else 0, process["pid"]


def _is_still(process: dict[str, Any]) -> bool:
    limit_ns = max(_STILL_NS, _STILL_STEPS * process["step_ns"])
    return bool(process["steps"]) and (process["since_step_ns"] or 0) > limit_ns


def _slowest(ranks: list[dict[str, Any]]) -> dict[str, Any] | None:
    """The one whose last step took clearly longer than those of the others."""
    moving = [rank for rank in ranks if rank["steps"] and not rank["is_still"]]
    if len(moving) < 2:
        return None
    slowest = max(moving, key=lambda rank: rank["step_ns"])
    usual_ns = statistics.median(rank["step_ns"] for rank in moving if rank is not slowest)
    return slowest if slowest["step_ns"] > _SLOW_RATIO * usual_ns else None


def _step_cells(rank: dict[str, Any]) -> tuple[str, str, str]:
    if not rank["steps"]:
        return "none", "", ""
    return str(rank["step"]), duration(rank["step_ns"]), f"{rank['steps_per_s']:.2f}"


def _still_for(rank: dict[str, Any]) -> str:
    return duration(rank["since_step_ns"]) if rank["is_still"] else ""


def _long_phase(rank: dict[str, Any]) -> str:
    """What it is doing all that time, if that is a phase."""
    phase = rank["phase"]
    if phase is None or phase["for_ns"] < _LONG_NS:
        return ""
    return f"{phase['name']} {duration(phase['for_ns'])}"


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
        if not view["ranks"]:
            print(f"no step so far in {processes(view['other_processes'])}", flush=True)
        for rank in view["ranks"]:
            name = f"rank {rank['rank']}" if rank["rank"] is not None else f"pid {rank['pid']}"
            step, took, pace = _step_cells(rank)
            parts = [f"{name} step {step} {took}", f"{pace}/s"]
            if not rank["steps"]:
                parts = [f"{name} no step so far"]
            if rank["is_still"]:
                parts.append(f"no step for {_still_for(rank)}")
            if _long_phase(rank):
                parts.append(f"now in {_long_phase(rank)}")
            shown = _phases_shown([rank])
            shares = {phase: percent(rank["phases"][phase]) for phase in shown}
            parts += [f"{phase} {share}" for phase, share in shares.items() if share]
            print("  ".join(parts), flush=True)


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


def table_of(view: dict[str, Any]) -> Group:
    """Of very many ranks the slowest."""
    from rich.console import Group
    from rich.table import Table
    from rich.text import Text

    ranks = view["ranks"]
    slow = _slowest(ranks)
    left_out = len(ranks) - _MOST_ROWS
    if left_out > 0:
        slowest = sorted(ranks, key=lambda rank: (not rank["is_still"], -rank["step_ns"]))[
            :_MOST_ROWS
        ]
        ranks = [rank for rank in ranks if rank in slowest]
    stepping = sum(rank["steps"] > 0 for rank in view["ranks"])
    without = len(view["ranks"]) - stepping + view["other_processes"]
    title = f"{view['job']}: {stepping} with steps, {without} without"
    if left_out > 0:
        title += f"; the {_MOST_ROWS} slowest are shown"
    if view["steps_apart"] > 1:
        title += f"; rank {view['behind_rank']} is {view['steps_apart']} steps behind"
    table = Table(box=None, pad_edge=False)
    shown = _phases_shown(ranks)
    still = ["no step for"] if any(rank["is_still"] for rank in ranks) else []
    phase = ["now in"] if any(_long_phase(rank) for rank in ranks) else []
    for column in ("rank", "step", "last step", "steps/s", *still, *phase, *shown):
        table.add_column(column, justify="right", no_wrap=True)
    for rank in ranks:
        label = str(rank["rank"]) if rank["rank"] is not None else f"pid {rank['pid']}"
        if rank is slow:
            label += " slowest"
        table.add_row(
            label,
            *_step_cells(rank),
            *(_still_for(rank) for _ in still),
            *(_long_phase(rank) for _ in phase),
            *(percent(rank["phases"][name]) for name in shown),
        )
    return Group(Text(title, style="italic"), table)


def _phases_shown(ranks: list[dict[str, Any]]) -> list[str]:
    """Those that some rank spent time in; without any the rest says nothing (JAX has none)."""
    named = [name for name in PHASES if any(rank["phases"][name] for rank in ranks)]
    return [*named, "other"] if named else []
