"""The lower part of `pilotlight top`: GPUs, the machine, and what does not answer."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rich.console import RenderableType

_GB = float(1 << 30)
_MB = 1e6
_RECENT_NS = 3600 * 1_000_000_000
_EVENTS = 5
_WHOLE = " gpu"  # of what is missing: all of that device
_REASONS = {
    0x4: "power",
    0x8: "hardware",
    0x10: "sync boost",
    0x20: "temperature",
    0x40: "temperature (hw)",
    0x80: "power brake",
    0x200: "board",
    0x400: "reliability",
}

Values = dict[str, float]


def devices_view(devices: dict[str, Any]) -> list[RenderableType]:
    """What the agent says of the node's devices; empty if it says nothing."""
    from rich.table import Table
    from rich.text import Text

    by_device = {
        device: {name: float(pair[0]) for name, pair in values.items()}
        for device, values in devices["values"].items()
    }
    gpus = {d: v for d, v in sorted(by_device.items(), key=_order) if d.startswith("gpu")}
    parts: list[RenderableType] = []
    if gpus:
        table = Table(box=None, pad_edge=False, header_style="bold")
        table.add_column("gpu", no_wrap=True)
        shown = [column for column in _COLUMNS if any(column[1](v) for v in gpus.values())]
        for title, _ in shown:
            table.add_column(title, justify="right", no_wrap=True)
        for device, values in gpus.items():
            table.add_row(device, *(cell(values) for _, cell in shown))
        parts += [Text(""), table]
    lines = [*host_line(by_device), *source_lines(devices), *event_lines(devices)]
    if lines:
        parts += [Text(""), Text("\n".join(lines))]
    return parts


def coverage_lines(status: Mapping[str, Any]) -> list[str]:
    """What is collected of the GPUs of each job, and for whom."""
    lines = []
    for job in status["jobs"]:
        rows = [
            process["gpu"]
            for process in status["processes"]
            if process["job"] == job["job"] and process.get("gpu")
        ]
        if not rows:
            continue
        seen = [row["records_ratio"] for row in rows]
        costs = [row["spent_ratio"] for row in rows if row["spent_ratio"] is not None]
        tiers = sorted({row["tier"] for row in rows})
        wide = [one["client"] for one in job["gpu"]["asked"] if one["tier"] in tiers]
        lines.append(
            f"GPUs of {job['job']}: {', '.join(tiers)} for {', '.join(wide) or 'the job'}, "
            f"device records {min(seen):.0%} to {max(seen):.0%} of the time"
            + (f", costs {max(costs):.2%}" if costs else "")
        )
    return lines


def _order(item: tuple[str, object]) -> tuple[int, str]:
    digits = "".join(c for c in item[0].partition("/")[0] if c.isdigit())
    return int(digits or 0), item[0]


def _number(name: str, form: str, factor: float = 1.0) -> Callable[[Values], str]:
    def cell(values: Values) -> str:
        return form.format(values[name] * factor) if name in values else ""

    return cell


def _memory(values: Values) -> str:
    if "memory_used" not in values:
        return ""
    total = values.get("memory_total")
    whole = f"/{total / _GB:.0f}" if total else ""
    return f"{values['memory_used'] / _GB:.1f}{whole} GB"


def _power(values: Values) -> str:
    if "power" not in values:
        return ""
    limit = values.get("power_limit")
    return f"{values['power']:.0f}" + (f"/{limit:.0f} W" if limit else " W")


def _held(values: Values) -> str:
    bits = int(values.get("throttle_reasons", 0))
    return ", ".join(text for bit, text in _REASONS.items() if bits & bit)


def _errors(values: Values) -> str:
    count = sum(values.get(name, 0) for name in ("ecc_uncorrected", "row_remap_failed"))
    return f"{count:.0f}" if count else ""


_COLUMNS: tuple[tuple[str, Callable[[Values], str]], ...] = (
    ("busy", _number("utilization", "{:.0f}%")),
    ("SM", _number("sm_active", "{:.0f}%")),
    ("tensor", _number("tensor_active", "{:.0f}%")),
    ("DRAM", _number("dram_active", "{:.0f}%")),
    ("memory", _memory),
    ("power", _power),
    ("temp", _number("temperature", "{:.0f} °C")),
    ("SM clock", _number("sm_clock", "{:.0f} MHz")),
    ("NVLink tx/s", _number("nvlink_tx", "{:.0f} MB", 1 / _MB)),
    ("PCIe tx/s", _number("pcie_tx", "{:.0f} MB", 1 / _MB)),
    ("procs", _number("processes", "{:.0f}")),
    ("errors", _errors),
    ("clocks held by", _held),
)


def host_line(by_device: dict[str, Values]) -> list[str]:
    host = by_device.get("host", {})
    parts = [
        cell(host)
        for cell in (
            _number("cpu", "cpu {:.0f}%"),
            _number("run_queue", "run queue {:.0f}"),
            _number("memory_available", "memory available {:.1f} GB", 1 / _GB),
            _number("pressure_cpu_some", "waiting for cpu {:.0f}%"),
            _number("pressure_io_some", "for disk {:.0f}%"),
        )
    ]
    said = "   ".join(part for part in parts if part)
    held = [
        f"{device} throttled {values['throttled']:.0f}%"
        for device, values in by_device.items()
        if values.get("throttled")
    ]
    return [*([f"host   {said}"] if said else []), *held]


def source_lines(devices: dict[str, Any]) -> list[str]:
    """Sources and GPUs that were there and do not answer now. A source that this node lacks is no
    news."""
    silent = [
        f"{source['name']} {source['state']}: {source['detail']}"
        for source in devices["sources"]
        if source["state"] in ("failing", "blocked")
    ]
    lost = [
        f"{what.removesuffix(_WHOLE)} does not answer: {why}"
        for source in devices["sources"]
        for what, why in source.get("missing", {}).items()
        if what.endswith(_WHOLE)
    ]
    return silent + lost


def event_lines(devices: dict[str, Any]) -> list[str]:
    recent = [event for event in devices["events"] if event["age_ns"] < _RECENT_NS]
    return [
        f"{event['age_ns'] // 1_000_000_000} s ago: {event['device']} {event['name']}"
        + (f" {event['value']}" if event["value"] else "")
        + f": {event['text']}"
        for event in recent[-_EVENTS:]
    ]
