"""What the units of the GPUs did, by the PM samples of a capture (docs/gpu.md)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from pilotlight.recording.recording import Recording

# The provider's counters of samples: PREFIX + gpuN/NAME.
PREFIX = "gpu/pm/"
HARDWARE_LISTED = 500
# In words; those that end so are rates, all others percentages of what the unit could do.
RATE_SUFFIX = "_bytes_per_s"
WORDS = {
    "sm_active": "multiprocessors have work",
    "tensor_active": "tensor units are busy",
    "dram_active": "memory is busy",
    "sm_occupancy": "warps, of those that fit",
    "issue_active": "instructions issued",
    "graphics_active": "engine has work",
    "dram_read": "memory is read",
    "dram_write": "memory is written",
    "nvlink_rx_bytes_per_s": "received by NVLink",
    "nvlink_tx_bytes_per_s": "sent by NVLink",
    "pcie_rx_bytes_per_s": "received by PCIe",
    "pcie_tx_bytes_per_s": "sent by PCIe",
}


@dataclass(frozen=True)
class UnitUse:
    """A unit of a GPU in the samples of one process: percent, or bytes a second."""

    process: int
    device: str
    name: str
    samples: int
    mean: float
    median: float
    p95: float
    max: float


def units_of(recording: Recording, since_ns: int = 0) -> tuple[UnitUse, ...]:
    """By process and device, in the order of WORDS; of samples before `since_ns` nothing."""
    table = recording.detail("counters")
    numbers = [n for n, text in enumerate(recording.names.texts) if text.startswith(PREFIX)]
    if not numbers or not table.rows:
        return ()
    found = recording.names.find(table["process"], table["name"])
    rows = np.isin(found, numbers) & (table["time_ns"] >= since_ns) & np.isfinite(table["value"])
    table, found = table.where(rows), found[rows]
    result = []
    keys = np.unique(np.stack((table["process"].astype(np.int64), found.astype(np.int64))), axis=1)
    for process, number in keys.T.tolist():
        values = table["value"][(table["process"] == process) & (found == number)]
        device, _, name = recording.names.texts[number][len(PREFIX) :].partition("/")
        middle, high = np.quantile(values, (0.5, 0.95)).tolist()
        result.append(
            UnitUse(
                process=process,
                device=device,
                name=name,
                samples=int(values.size),
                mean=float(values.mean()),
                median=middle,
                p95=high,
                max=float(values.max()),
            )
        )
    order = {name: place for place, name in enumerate(WORDS)}
    result.sort(key=lambda one: (one.process, one.device, order.get(one.name, len(order))))
    return tuple(result)
