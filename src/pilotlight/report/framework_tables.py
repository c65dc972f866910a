"""The tables of phases, modules, collectives and compilations on a terminal."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from pilotlight.report import units
from pilotlight.report.frameworks import Frameworks
from pilotlight.report.phases import OTHER, PHASES, PhaseTimes
from pilotlight.report.titled import add_row, print_table, titled

_PROCESSES = 16
_ROWS = 8
_LINES = 10
_TIMES = 4

Label = Callable[[int], str]


def print_phases(phases: Sequence[PhaseTimes], label: Label, console: Console) -> None:
    if not phases:
        return
    shown = [name for name in (*PHASES, OTHER) if any(times.phase == name for times in phases)]
    table = titled("What a step is made of", "rank", *shown)
    by_process: dict[int, dict[str, PhaseTimes]] = {}
    for times in phases:
        by_process.setdefault(times.process, {})[times.phase] = times
    for process, mine in list(by_process.items())[:_PROCESSES]:
        cells = [_share(mine.get(name)) for name in shown]
        add_row(table, label(process), *cells)
    _print(console, table, len(by_process) - _PROCESSES)


def _share(times: PhaseTimes | None) -> str:
    if times is None:
        return ""
    return ("~" if times.is_estimate else "") + units.share(times.ratio)


def print_frameworks(told: Frameworks, label: Label, console: Console) -> None:
    if told.modules:
        table = titled("Modules", "name", "rank", "calls", "total", "mean", wide=["name"])
        for times in told.modules[:_ROWS]:
            about = "~" if times.is_estimate else ""
            calls, total = about + units.count(times.count), about + units.duration(times.total_ns)
            mean = units.duration(times.total_ns // times.count)
            add_row(table, times.name, label(times.process), calls, total, mean)
        _print(console, table, len(told.modules) - _ROWS)
    if told.collectives:
        table = titled(
            "Collectives",
            *("operation", "group", "rank", "count", "bytes", "total", "waiting"),
            wide=["operation", "group"],
        )
        for each in told.collectives[:_ROWS]:
            about = "~" if each.is_estimate else ""
            total = about + units.duration(each.total_ns) if each.timed else units.NOT_MEASURED
            waited = about + units.duration(each.wait_ns) if each.waits else units.NOT_MEASURED
            add_row(
                table,
                each.operation,
                each.group,
                label(each.process),
                about + units.count(each.count),
                about + units.size(each.bytes),
                total,
                waited,
            )
        _print(console, table, len(told.collectives) - _ROWS)
    lines = []
    for times_of_kind in (told.loader_work, told.compilations, told.synchronizations):
        found = [
            f"{label(times.process)}: {times.name}, {units.count(times.count)} times, "
            f"{units.duration(times.total_ns)}"
            for times in times_of_kind
        ]
        lines += _cut(found, _TIMES)
    marks = [
        f"{label(mark.process)}: {mark.text}" + (f" ({mark.count} times)" if mark.count > 1 else "")
        for mark in told.marks
    ]
    lines += _cut(marks, _LINES)
    _lines(console, "Loading, compiling, waiting for devices", lines)
    _lines(console, "About the job", _facts(told, label))


def _cut(lines: Sequence[str], most: int) -> list[str]:
    """The first ones, and how many more there are."""
    left = len(lines) - most
    more = [f"and {units.count(left)} more like it, see --json"] if left > 0 else []
    return [*lines[:most], *more]


def _facts(told: Frameworks, label: Label) -> list[str]:
    """What is the same wherever it is told once, then what differs, for a few."""
    everywhere: dict[str, object] = {}
    differs: set[str] = set()
    for facts in told.facts.values():
        differs |= {
            key for key, value in facts.items() if everywhere.setdefault(key, value) != value
        }
    everywhere = {key: value for key, value in everywhere.items() if key not in differs}
    lines = [
        f"{key}: {_value(value)}" for key, value in everywhere.items() if value not in ([], "")
    ]
    for process, facts in list(told.facts.items())[:4]:
        own = {key: value for key, value in facts.items() if key not in everywhere}
        lines += [f"{label(process)}: {key}: {_value(value)}" for key, value in own.items()]
    return lines


def _value(value: object) -> str:
    return ", ".join(map(str, value)) if isinstance(value, list) else str(value)


def _print(console: Console, table: Table, more: int) -> None:
    print_table(console, table)
    if more > 0:
        console.print(Text(f"and {units.count(more)} more, see --json", style="dim"))
    console.print()


def _lines(console: Console, title: str, lines: Sequence[str]) -> None:
    if not lines:
        return
    console.print(Text(title, style="bold"))
    for line in lines:
        console.print(Padding(Text(units.printable(line)), (0, 0, 0, 2), expand=False))
    console.print()
