"""A report on a terminal: the answer first, then the evidence."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from pilotlight.report import units
from pilotlight.report.calls import call_tree
from pilotlight.report.device_tables import print_devices
from pilotlight.report.framework_tables import print_frameworks, print_phases
from pilotlight.report.gpu_tables import print_gpu_work
from pilotlight.report.headline import headline
from pilotlight.report.notes import garbage_notes, loss_notes, overhead_notes
from pilotlight.report.report import Report
from pilotlight.report.steps import Outlier, ProcessSteps
from pilotlight.report.threads import StateTimes
from pilotlight.report.titled import add_row, print_table, titled

_ROWS = 12
_PROCESSES = 16
_BAR_WIDTH = 10
_LEAST_SHOWN = 0.001
_CALLERS = 2


def print_report(report: Report, console: Console) -> None:
    console.print(Text(headline(report), style="bold"))
    console.print(Text(_about(report), style="dim"))
    console.print()
    _print_steps(report, console)
    print_phases(report.phases, report.label, console)
    _print_functions(report, console)
    _print_calls(report, console)
    _print_ranges(report, console)
    print_frameworks(report.frameworks, report.label, console)
    _print_threads(report, console)
    _print_counters(report, console)
    print_gpu_work(report.gpu, report.label, console)
    print_devices(report.devices, console)
    _print_processes(report, console)
    for title, lines in (
        ("Garbage collection", garbage_notes(report)),
        ("Not in these numbers", loss_notes(report)),
        ("Cost of pilotlight", overhead_notes(report)),
    ):
        _print_lines(console, title, lines)


def _about(report: Report) -> str:
    manifest = report.manifest
    parts = [
        manifest.job,
        report.state,
        units.duration(report.duration_ns) if report.processes else "",
        f"{len(report.processes)} process{'es' if len(report.processes) != 1 else ''} "
        f"on {manifest.node}",
        " ".join(" ".join(manifest.command).split()),
    ]
    if manifest.signal is not None:
        parts.append(units.signal_name(manifest.signal))
    elif manifest.exit_code is not None:
        parts.append(f"exit code {manifest.exit_code}")
    return "  ·  ".join(units.printable(part) for part in parts if part)


def _has_ranks(report: Report) -> bool:
    return any(facts.rank is not None for facts in report.processes)


def _who(report: Report) -> str:
    """The title of a column of labels."""
    return "rank" if _has_ranks(report) else "process"


def _print_table(console: Console, table: Table, more: int) -> None:
    print_table(console, table)
    if more > 0:
        console.print(Text(f"and {units.count(more)} more, see --html or --json", style="dim"))
    console.print()


def _print_steps(report: Report, console: Console) -> None:
    if not report.steps:
        return
    table = titled(
        "Steps", _who(report), "steps", "median", "p95", "min", "max", "outliers", "cost"
    )
    slowest_first = sorted(report.steps, key=lambda steps: -steps.median_ns)
    for steps in slowest_first[:_PROCESSES]:
        add_row(
            table,
            report.label(steps.process),
            units.count(steps.count),
            units.duration(steps.median_ns),
            units.duration(steps.p95_ns),
            units.duration(steps.min_ns),
            units.duration(steps.max_ns),
            units.count(steps.outlier_count),
            units.share(steps.outlier_excess_ns / steps.total_ns if steps.total_ns else 0),
        )
    _print_table(console, table, len(report.steps) - _PROCESSES)

    outliers = [(steps, outlier) for steps in report.steps for outlier in steps.outliers]
    if not outliers:
        return
    table = titled(
        "Steps that took much longer",
        *("step", "ranks", "worst", "after", "took", "×", "GC", "mostly in"),
        wide=["mostly in"],
    )
    outliers.sort(key=lambda pair: -pair[1].duration_ns)
    ranks = Counter(outlier.step for _, outlier in outliers)
    worst: dict[int, tuple[ProcessSteps, Outlier]] = {}
    for pair in outliers:
        worst.setdefault(pair[1].step, pair)
    shown = list(worst.values())[:_ROWS]
    for steps, outlier in shown:
        doing = f"{outlier.doing} ({units.share(outlier.doing_ratio)})" if outlier.doing else ""
        add_row(
            table,
            f"{outlier.step}{' (first)' if outlier.is_first else ''}",
            units.count(ranks[outlier.step]),
            report.label(steps.process),
            units.duration(outlier.since_start_ns),
            units.duration(outlier.duration_ns),
            units.three_digits(outlier.ratio),
            units.duration(outlier.gc_ns) if outlier.gc_ns else "",
            doing,
        )
    told = sum(ranks[outlier.step] for _, outlier in shown)
    _print_table(console, table, sum(steps.outlier_count for steps in report.steps) - told)


def _print_functions(report: Report, console: Console) -> None:
    if not report.functions:
        return
    names = ", ".join(report.functions_of_threads[:3])
    more = "…" if len(report.functions_of_threads) > 3 else ""
    whole_ns = report.functions_ns or 1
    table = titled(
        f"Where the time goes ({units.printable(names)}{more})",
        *("self", "", "total", "running", "function", "file"),
        wide=["function", "file"],
    )
    busy = [
        function for function in report.functions if function.self_ns >= _LEAST_SHOWN * whole_ns
    ]
    by_self = sorted(busy, key=lambda function: -function.self_ns)
    for function in by_self[:_ROWS]:
        add_row(
            table,
            units.share(function.self_ns / whole_ns),
            _bar(function.self_ns / whole_ns),
            units.share(function.total_ns / whole_ns),
            units.share(function.running_ns / function.self_ns),
            function.function,
            short_file(function.file),
        )
    _print_table(console, table, report.functions_found - min(len(by_self), _ROWS))
    if report.functions_without:
        labels = [report.label(process) for process in report.functions_without[:3]]
        more = "…" if len(report.functions_without) > 3 else ""
        waits = "waits" if len(report.functions_without) == 1 else "wait"
        console.print(Text(f"without {', '.join(labels)}{more}, which only {waits}", style="dim"))
        console.print()


def _print_calls(report: Report, console: Console) -> None:
    threads, without = frozenset(report.functions_of_threads), frozenset(report.functions_without)
    calls = call_tree(report.flame, threads, without)
    if not calls:
        return
    whole_ns = report.functions_ns or 1
    table = titled(
        "Who calls it (5 % and more)", *("total", "self", "calls", "file"), wide=["calls", "file"]
    )
    for call in calls:
        outer = call.functions[:-1]
        shown = outer if len(outer) <= _CALLERS else (outer[0], "…")
        add_row(
            table,
            units.share(call.total_ns / whole_ns),
            units.share(call.self_ns / whole_ns),
            "  " * call.depth + " › ".join([*shown, call.functions[-1]]),
            short_file(call.file),
        )
    _print_table(console, table, 0)


def short_file(file: str) -> str:
    """The end of a path, from the package on where it is an installed one."""
    _, installed, inside = file.rpartition("/site-packages/")
    return inside if installed else "/".join(file.split("/")[-2:])


def _bar(ratio: float) -> str:
    return "█" * round(ratio * _BAR_WIDTH)


def _print_ranges(report: Report, console: Console) -> None:
    if not report.ranges:
        return
    table = titled("Ranges", "name", "count", "total", "self", "p50", "p95", "max", wide=["name"])
    for times in report.ranges[:_ROWS]:
        about = "~" if times.is_estimate else ""
        partial = f" ({times.partial} partial)" if times.partial else ""
        add_row(
            table,
            times.name + partial,
            units.count(times.count),
            units.duration(times.total_ns),
            ("≥ " if times.is_estimate else "") + units.duration(times.self_ns),
            about + units.duration(times.p50_ns),
            about + units.duration(times.p95_ns),
            units.duration(times.max_ns),
        )
    _print_table(console, table, len(report.ranges) - _ROWS)


def _print_threads(report: Report, console: Console) -> None:
    if not report.threads:
        return
    table = titled("Threads", "thread", _who(report), "samples", *_STATE_TITLES, wide=["thread"])
    for row in report.threads[:_ROWS]:
        add_row(
            table,
            row.name or f"thread {row.thread}",
            report.label(row.process),
            units.count(row.samples),
            *_states(row.times),
        )
    _print_table(console, table, len(report.threads) - _ROWS)


_STATE_TITLES = ("running", "waiting", "GIL wait", "disk")


def _states(times: StateTimes) -> Iterable[str]:
    whole_ns = times.total_ns or 1
    for part_ns in (times.running_ns, times.waiting_ns, times.gil_wait_ns, times.disk_ns):
        yield units.share(part_ns / whole_ns)


def _print_counters(report: Report, console: Console) -> None:
    if not report.counters:
        return
    table = titled("Counters", "name", _who(report), "last", "min", "max", wide=["name"])
    for values in report.counters[:_ROWS]:
        numbers = (units.value(values.last), units.value(values.min), units.value(values.max))
        add_row(table, values.name, report.label(values.process), *numbers)
    _print_table(console, table, len(report.counters) - _ROWS)


def _print_processes(report: Report, console: Console) -> None:
    if not report.processes:
        return
    ranks = ["rank"] if _has_ranks(report) else []
    table = titled(
        "Processes", *ranks, "pid", "lived", "sampled", "end", "command", wide=["command"]
    )
    for facts in report.processes[:_PROCESSES]:
        sampled = facts.sampled_ratio
        rank = "" if facts.rank is None else str(facts.rank)
        add_row(
            table,
            *([rank] if ranks else []),
            str(facts.pid),
            units.duration(facts.duration_ns),
            units.share(sampled) if sampled is not None else units.NOT_MEASURED,
            facts.end,
            " ".join(facts.command.split()),
        )
    _print_table(console, table, len(report.processes) - _PROCESSES)


def _print_lines(console: Console, title: str, lines: Sequence[str]) -> None:
    console.print(Text(title, style="bold"))
    for line in lines:
        console.print(Padding(Text(units.printable(line)), (0, 0, 0, 2), expand=False))
    console.print()
