"""The GPUs' work of a report on a terminal."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from rich.console import Console
from rich.text import Text

from pilotlight.report import units
from pilotlight.report.external import ExternalTime
from pilotlight.report.gpu_work import LOSSES, GpuWork, ProcessGpu, WorkTime
from pilotlight.report.hardware import RATE_SUFFIX, WORDS, UnitUse
from pilotlight.report.kernel_use import KernelUse
from pilotlight.report.provider_losses import PROVIDER_LOSSES
from pilotlight.report.stalls import FunctionStalls, described
from pilotlight.report.titled import add_row, print_table, titled

_ROWS = 12
_PROCESSES = 16
_UNITS = 36


def print_gpu_work(gpu: GpuWork, label: Callable[[int], str], console: Console) -> None:
    _print_providers(gpu, label, console)
    _print_work(gpu, console)
    if not gpu.processes:  # such as a program that uses OpenCL alone
        return
    print_stalls(gpu.stalls, console)
    print_hardware(gpu.hardware, label, console)
    print_kernels(gpu.kernels, console)
    _print_external(gpu.external, label, console)
    table = titled("GPU", "rank", "gpu", "busy", "seen", "launches", "costs", "of it launches")
    for one in gpu.processes[:_PROCESSES]:
        add_row(
            table,
            label(one.process),
            ",".join(map(str, one.devices)) or "",
            units.share(one.busy_ratio) if one.busy_ratio is not None else units.NOT_MEASURED,
            units.share(one.coverage_ratio),
            units.count(one.launches),
            _cost(one),
            units.share(one.launch_ratio) if one.launch_ratio is not None else "",
        )
    print_table(console, table)
    if len(gpu.processes) > _PROCESSES:
        console.print(Text(f"and {len(gpu.processes) - _PROCESSES} more, see --json", style="dim"))
    for line in _notes(gpu, label):
        console.print(Text(f"  {units.printable(line)}"))
    console.print()


def _print_providers(gpu: GpuWork, label: Callable[[int], str], console: Console) -> None:
    """What NVTX, NCCL and OpenCL could not record."""
    for one in gpu.providers[:_PROCESSES]:
        lines = [f"not recorded: {reason}" for reason in one.missing]
        lines += [
            f"{units.count(n)} {PROVIDER_LOSSES[name]}" for name, n in one.losses.items() if n
        ]
        for line in lines:
            console.print(Text(f"  {label(one.process)}: {units.printable(line)}"))
    if gpu.providers:
        console.print()


def _print_work(gpu: GpuWork, console: Console) -> None:
    if not gpu.work:
        return
    title = "Work on the GPU" if gpu.processes else "Work on the device"
    if any(one.coverage_ratio < 0.999 for one in gpu.processes):
        title += " (totals stand for the time between the windows too)"
    table = titled(
        title,
        *("time", "total", "count", "seen", "median", "work", "launched in"),
        wide=["work", "launched in"],
    )
    for work in gpu.work[:_ROWS]:
        add_row(
            table,
            units.share(work.ratio),
            _total(work),
            units.count(round(work.total_count)),
            units.count(work.seen),
            units.duration(work.median_ns),
            work.name,
            work.launched_in,
        )
    print_table(console, table)
    if any(work.is_in_graphs for work in gpu.work[:_ROWS]):
        line = "the time of a CUDA graph is that of its kernels, which have rows of their own too"
        console.print(Text(f"  {line}", style="dim"))
    more = len(gpu.work) - _ROWS + gpu.work_left_out
    if more > 0:
        console.print(Text(f"and {units.count(more)} more, see --json", style="dim"))
    console.print()


def _total(work: WorkTime) -> str:
    """With its 95 % interval, where it is an estimate."""
    total = units.duration(int(work.total_ns))
    if work.total_low_ns is None or work.total_high_ns is None:
        return f"{total} ± unknown"
    half = max(work.total_high_ns - work.total_ns, work.total_ns - work.total_low_ns)
    if work.total_ns <= 0 or half < 0.0005 * work.total_ns:
        return total
    return f"{total} ± {units.share(half / work.total_ns)}"


def print_stalls(functions: Sequence[FunctionStalls], console: Console) -> None:
    if not functions:
        return
    table = titled(
        "Why kernels stall (PC samples)",
        *("of all", "samples", "kernel", "why"),
        wide=["kernel", "why"],
    )
    for one in functions[:_ROWS]:
        add_row(
            table, units.share(one.ratio), units.count(one.samples), one.function, described(one)
        )
    print_table(console, table)
    if len(functions) > _ROWS:
        console.print(Text(f"and {len(functions) - _ROWS} more, see --json", style="dim"))
    console.print()


def print_hardware(
    units_used: Sequence[UnitUse], label: Callable[[int], str], console: Console
) -> None:
    if not units_used:
        return
    columns = ("rank", "gpu", "mean", "95 % below", "most", "unit")
    table = titled("Units of the GPU (PM samples)", *columns, wide=columns[-1:])
    for one in units_used[:_UNITS]:
        values = (one.mean, one.p95, one.max)
        add_row(
            table,
            label(one.process),
            one.device.removeprefix("gpu"),
            *(_amount(one.name, value) for value in values),
            WORDS.get(one.name, one.name),
        )
    print_table(console, table)
    if len(units_used) > _UNITS:
        console.print(Text(f"and {len(units_used) - _UNITS} more, see --json", style="dim"))
    console.print()


def print_kernels(kernels: Sequence[KernelUse], console: Console) -> None:
    if not kernels:
        return
    shown = {"tensor": "tensor_active", "memory": "dram_active", "warps": "sm_occupancy"}
    title = "Kernels by hardware metrics (range profiler, one kernel at a time)"
    table = titled(title, "time", "runs", "mean", *shown, "kernel", wide=["kernel"])
    for one in kernels[:_ROWS]:
        values = (one.means.get(name) for name in shown.values())
        add_row(
            table,
            units.share(one.ratio),
            units.count(one.runs),
            units.duration(one.mean_ns),
            *(units.share(value / 100) if value is not None else "" for value in values),
            one.kernel,
        )
    print_table(console, table)
    if len(kernels) > _ROWS:
        console.print(Text(f"and {len(kernels) - _ROWS} more, see --json", style="dim"))
    console.print()


def _print_external(
    external: Sequence[ExternalTime], label: Callable[[int], str], console: Console
) -> None:
    if not external:
        return
    table = titled("Work on the GPU by external id", "rank", "total", "count", "kind", "id")
    for one in external[:_ROWS]:
        total, count = units.duration(one.total_ns), units.count(one.count)
        add_row(table, label(one.process), total, count, one.kind, str(one.id))
    print_table(console, table)
    if len(external) > _ROWS:
        console.print(Text(f"and {len(external) - _ROWS} more, see --json", style="dim"))
    console.print()


def _amount(name: str, value: float) -> str:
    if name.endswith(RATE_SUFFIX):
        return f"{units.size(int(value))}/s"
    return units.share(value / 100)


def _cost(one: ProcessGpu) -> str:
    """By how much steps are longer while device records are on, with its interval."""
    if one.overhead_ratio is None or one.overhead_low is None or one.overhead_high is None:
        return units.NOT_MEASURED
    return (
        f"{one.overhead_ratio:+.2%} of a step ({one.overhead_low:+.2%} to {one.overhead_high:+.2%})"
    )


def _notes(gpu: GpuWork, label: Callable[[int], str]) -> list[str]:
    lines = []
    for one in gpu.processes[:_PROCESSES]:
        lines += [f"{label(one.process)}: not recorded: {reason}" for reason in one.missing]
        if one.yielded_ns and one.watched_ns:
            share = units.share(one.yielded_ns / one.watched_ns)
            lines.append(
                f"{label(one.process)}: another tool had CUPTI for "
                f"{units.duration(one.yielded_ns)} ({share} of the time): work in it is estimated"
            )
        for name, count in one.losses.items():
            lines.append(f"{label(one.process)}: {units.count(count)} {LOSSES[name]}")
    return lines
