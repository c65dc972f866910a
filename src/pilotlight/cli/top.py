"""`pilotlight top`: what every process of this user's jobs does right now."""

from __future__ import annotations

import argparse
import json
import sys
import time
from typing import TYPE_CHECKING, Any

from pilotlight.cli.terminal import console
from pilotlight.cli.top_devices import coverage_lines, devices_view
from pilotlight.cli.top_screen import REFRESH_S, watch
from pilotlight.client import Client
from pilotlight.errors import NotFound
from pilotlight.printable import one_line

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.text import Text

_BAR_CELLS = 12
# On less, what a process does right now needs the room; the numbers say the same.
_COLUMNS_FOR_BAR = 80
_ALL = slice(None)
_FILE_COLUMNS = 160
_STATES = (
    ("running", "█", "green", "running"),
    ("gil_wait", "▓", "yellow", "waiting for the GIL"),
    ("disk", "▒", "red", "for the disk"),
    ("waiting", "░", "dim", "for anything else"),
)


class Top:
    name = "top"
    help = "Show live what every recorded process does: steps, where time goes, losses, cost."
    examples = (
        "pilotlight top",
        "pilotlight top nightly",
        "pilotlight top --once --json",
    )

    def arguments(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument("job", nargs="?", metavar="JOB", help="only this job")
        parser.add_argument("--once", action="store_true", help="print one table and end")
        parser.add_argument("--json", action="store_true", help="print one status as JSON and end")

    def run(self, args: argparse.Namespace) -> int:
        with Client() as client:
            if args.json or args.once or not (sys.stdin.isatty() and sys.stdout.isatty()):
                # The first look makes the agent keep names; the second has rates and functions.
                select_job(client.ask("status", look=True), args.job)
                time.sleep(REFRESH_S + 0.2)
                status = select_job(client.ask("status", look=True), args.job)
                if args.json:
                    print(json.dumps(status))
                else:
                    _print(status)
                return 0
            watch(
                console(),
                lambda: select_job(client.ask("status", look=True), args.job),
                view,
                lambda status: len(status["processes"]),
            )
        return 0


def select_job(status: dict[str, Any], job: str | None) -> dict[str, Any]:
    """Only what belongs to one job; NotFound if there is no such job."""
    if job is None:
        return status
    names = [entry["job"] for entry in status["jobs"]]
    if job not in names:
        raise NotFound(f"no job {job}; being recorded: {', '.join(names[:8]) or 'nothing'}")
    return {
        **status,
        "jobs": [entry for entry in status["jobs"] if entry["job"] == job],
        "processes": [entry for entry in status["processes"] if entry["job"] == job],
    }


def _print(status: dict[str, Any]) -> None:
    out = console(file_columns=_FILE_COLUMNS)
    out.print(view(status, out.width))


def view(status: dict[str, Any], width: int, shown: slice = _ALL) -> RenderableType:
    """The whole screen of one status; `shown` are the processes for which there is room."""
    from rich.console import Group
    from rich.table import Table
    from rich.text import Text

    several = len(status["jobs"]) > 1
    rows = [_cells(process, several) for process in sorted(status["processes"], key=_order)]
    places = [
        place
        for place, title in enumerate(_TITLES)
        if title not in _OPTIONAL or any(str(row[place]) for row in rows)
    ]
    has_bar = width >= _COLUMNS_FOR_BAR
    if not has_bar:
        places.remove(_TITLES.index("time in"))
    table = Table(box=None, pad_edge=False, header_style="bold")
    for place in places:
        title = _TITLES[place]
        # Numbers keep their width on a narrow terminal; text, which might wrap, gives way.
        if title in _TEXTS:
            table.add_column(title, overflow="ellipsis")
        else:
            widest = max((len(str(row[place])) for row in rows), default=0)
            table.add_column(
                title, justify="right", no_wrap=True, min_width=max(widest, len(title))
            )
    for row in rows[shown]:
        table.add_row(*(row[place] for place in places))
    lines = [agent_line(status["agent"]), *map(job_line, status["jobs"])]
    lines += coverage_lines(status)
    lines += [f"{session}" for session in client_lines(status["clients"])]
    if status["processes_left_out"]:
        lines.append(f"{status['processes_left_out']} more processes are not shown")
    if not status["processes"]:
        lines.append("no process is being recorded; start one: pilotlight run -- python train.py")
    parts: list[RenderableType] = [Text("\n".join(lines)), Text(""), table]
    if rows and has_bar:
        legend = Text("time in:", style="dim")
        for _, sign, style, meaning in _STATES:
            legend.append("  ").append(sign, style).append(f" {meaning}")
        parts += [Text(""), legend]
    if "devices" in status:
        parts += devices_view(status["devices"])
    return Group(*parts)


_NUMBERS = ("rank", "pid", "steps", "steps/s", "last step", "run", "GIL", "disk", "drops")
_TEXTS = ("time in", "now")
_TITLES = (*_NUMBERS, *_TEXTS)
# Only where some process has one.
_OPTIONAL = ("rank", "steps/s", "last step", "GIL", "disk")


def _order(process: dict[str, Any]) -> tuple[str, bool, int, int]:
    rank = process["rank"]
    return process["job"], rank is None, rank if isinstance(rank, int) else 0, process["pid"]


def _cells(process: dict[str, Any], several: bool) -> list[str | Text]:
    from rich.text import Text

    states = process["states"]
    rank = process["rank"]
    now = one_line(f"{doing(process)}  {process['job']}" if several else doing(process))
    return [
        "" if rank is None else str(rank),
        str(process["pid"]),
        str(process["steps"]),
        f"{process['steps_per_s']:.2f}" if process["steps"] else "",
        milliseconds(process["step_ns"]) if process["steps"] else "",
        percent(states["running"]),
        percent(states["gil_wait"]),
        percent(states["disk"]),
        str(process["dropped"]),
        _bar(states),
        Text(now, no_wrap=True, overflow="ellipsis"),
    ]


def _bar(states: dict[str, float]) -> Text:
    """Cells by the share of each state; what is left over stays empty."""
    from rich.text import Text

    bar = Text(no_wrap=True)
    for name, sign, style, _ in _STATES:
        bar.append(sign * round(states[name] * _BAR_CELLS), style)
    bar.truncate(_BAR_CELLS, pad=True)
    return bar


def doing(process: dict[str, Any]) -> str:
    """The function that runs most, else what the process waits in or why nothing is known."""
    if not process["alive"]:
        return "ended"
    if process["off"]:
        return f"probe off: {process['off']}"
    if not process["connected"]:
        return "hung up"
    if process["functions"]:
        name, ratio = process["functions"][0]
        return f"{name} {percent(ratio)}"
    return str(process["open"][-1] if process["open"] else process["command"])


def agent_line(agent: dict[str, Any]) -> str:
    """The agent's own cost against its ceilings."""
    parts = [
        f"agent {agent['pid']}",
        f"cpu {agent['cpu_ratio'] * 100:.2f}% of {agent['cpu_ceiling_ratio'] * 100:g}%",
        f"memory {megabytes(agent['own_bytes'])} of {megabytes(agent['memory_ceiling_bytes'])}",
        f"disk {megabytes(agent['disk_bytes'])} of {megabytes(agent['limit_bytes'])}",
        processes(agent["processes"]),
    ]
    if agent["level"]:
        parts.append(f"slowed down (level {agent['level']})")
    refused = sum(agent["refused"].values())
    if refused:
        parts.append(f"{refused} probes refused")
    return "   ".join(parts)


def job_line(job: dict[str, Any]) -> str:
    text = f"job {job['job']}   {processes(job['processes'])}   {job['folder']}"
    lost = [
        f"{job[key]} {what}"
        for key, what in (
            ("records_dropped", "records dropped by probes"),
            ("rows_dropped", "rows dropped by the recorder"),
            ("chunks_dropped", "old chunks dropped"),
        )
        if job[key]
    ]
    return "   ".join([text, *lost, *job["errors"][-1:]])


def client_lines(clients: list[dict[str, Any]]) -> list[str]:
    """Subscribers that are behind."""
    return [
        f"client {client['pid']} is behind: {client['queued']} queued, {client['dropped']} dropped"
        for client in clients
        if client["dropped"]
    ]


def processes(number: int) -> str:
    return f"{number} process{'' if number == 1 else 'es'}"


def percent(ratio: float) -> str:
    return f"{ratio * 100:.0f}%" if ratio else ""


def milliseconds(duration_ns: int) -> str:
    return f"{duration_ns / 1e6:.1f} ms"


def megabytes(count: int) -> str:
    return f"{count / (1 << 20):.1f} MB"
