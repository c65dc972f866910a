"""GPUs and host of a report on a terminal."""

from __future__ import annotations

from collections.abc import Callable

from rich.console import Console
from rich.padding import Padding
from rich.text import Text

from pilotlight.report import units
from pilotlight.report.devices import Devices, DeviceValues
from pilotlight.report.titled import titled

_GPUS = 16
_EVENTS = 8
_GB = float(1 << 30)

Cell = Callable[[DeviceValues], str]


def _percent(values: DeviceValues) -> str:
    return f"{values.mean:.0f}%"


_GPU_COLUMNS: tuple[tuple[str, str, Cell], ...] = (
    ("busy", "utilization", _percent),
    ("SM", "sm_active", _percent),
    ("tensor", "tensor_active", _percent),
    ("DRAM", "dram_active", _percent),
    ("memory", "memory_used", lambda v: f"{v.max / _GB:.1f} GB"),
    ("power", "power", lambda v: f"{v.mean:.0f} W"),
    ("max temp", "temperature", lambda v: f"{v.max:.0f} °C"),
    ("SM clock", "sm_clock", lambda v: f"{v.mean:.0f} MHz"),
    ("NVLink tx", "nvlink_tx", lambda v: f"{units.size(v.mean)}/s"),
    ("PCIe tx", "pcie_tx", lambda v: f"{units.size(v.mean)}/s"),
    ("ECC", "ecc_uncorrected", lambda v: f"{v.max:.0f}"),
)
_HOST_LINE: tuple[tuple[str, Cell], ...] = (
    ("cpu", lambda v: f"CPU {v.mean:.0f}% (max {v.max:.0f}%)"),
    ("run_queue", lambda v: f"run queue {v.mean:.1f} (max {v.max:.0f})"),
    ("memory_available", lambda v: f"least memory available {v.min / _GB:.1f} GB"),
    ("pressure_cpu_some", lambda v: f"waited for CPU {v.mean:.1f}%"),
    ("pressure_io_some", lambda v: f"for disk {v.mean:.1f}%"),
    ("pressure_memory_some", lambda v: f"for memory {v.mean:.1f}%"),
)


def print_devices(devices: Devices, console: Console) -> None:
    by_device: dict[str, dict[str, DeviceValues]] = {}
    for values in devices.values:
        by_device.setdefault(values.device, {})[values.name] = values
    _print_gpus({d: v for d, v in by_device.items() if d.startswith("gpu")}, console)
    lines = _lines(devices, by_device)
    if lines:
        console.print(Text("The machine", style="bold"))
        for line in lines:
            console.print(Padding(Text(units.printable(line)), (0, 0, 0, 2), expand=False))
        console.print()


def _print_gpus(gpus: dict[str, dict[str, DeviceValues]], console: Console) -> None:
    if not gpus:
        return
    shown = [
        (title, name, cell)
        for title, name, cell in _GPU_COLUMNS
        if any(name in values for values in gpus.values())
    ]
    table = titled("GPUs (means)")
    for title in ("gpu", *(title for title, _, _ in shown)):
        table.add_column(title, justify="right", no_wrap=True)
    for device, values in list(gpus.items())[:_GPUS]:
        cells = [cell(values[name]) if name in values else "" for _, name, cell in shown]
        table.add_row(*(Text(units.printable(text)) for text in (device, *cells)))
    console.print(table)
    if len(gpus) > _GPUS:
        console.print(Text(f"and {len(gpus) - _GPUS} more, see --json", style="dim"))
    console.print()


def _lines(devices: Devices, by_device: dict[str, dict[str, DeviceValues]]) -> list[str]:
    host = by_device.get("host", {})
    parts = [cell(host[name]) for name, cell in _HOST_LINE if name in host]
    lines = [", ".join(parts)] if parts else []
    for device, values in by_device.items():
        held = values.get("throttled")
        if held is not None and held.max > 0:
            lines.append(f"{device}: throttled {held.mean:.1f}% of the time (max {held.max:.0f}%)")
    for one in devices.throttling:
        lines.append(
            f"{one.device}: clocks held {units.share(one.ratio)} of the time by {one.reason}"
        )
    for event in devices.events[:_EVENTS]:
        number = f" {event.value}" if event.value else ""
        when = units.duration(event.since_start_ns)
        lines.append(f"after {when}: {event.device} {event.name}{number}: {event.text}")
    more = len(devices.events) - _EVENTS + devices.events_left_out
    if more > 0:
        lines.append(f"and {more} more events, see --json")
    return lines
