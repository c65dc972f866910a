"""What the providers other than CUDA's could not record, and how much of it (docs/providers.md)."""

from __future__ import annotations

import re
from dataclasses import dataclass

import numpy as np

from pilotlight.recording.recording import Recording
from pilotlight.recording.schema import MarkKind

# Counters of losses, and how to say them.
PROVIDER_LOSSES = {
    "nvtx/lost": "names and ranges of NVTX for which there was no room",
    "nccl/lost": "operations of NCCL for which there was no room",
    "nccl/unfinished": "operations of NCCL that had not ended when their communicator did",
    "opencl/lost": "OpenCL commands for which there was no room",
    "opencl/untimed": "OpenCL commands to which the driver gave no times",
    "opencl/unfinished": "OpenCL commands that were not done when the process ended",
}
_MISSING = re.compile(r"([a-z_]+)/missing: (.+)")
_GPU = "gpu"


@dataclass(frozen=True)
class ProviderLosses:
    """Of one process. `missing`: what a provider said that it cannot record here, and why."""

    process: int
    losses: dict[str, int]
    missing: tuple[str, ...]


def provider_losses_of(recording: Recording) -> tuple[ProviderLosses, ...]:
    losses = _losses(recording)
    missing = _missing(recording)
    return tuple(
        ProviderLosses(process, losses.get(process, {}), tuple(missing.get(process, ())))
        for process in sorted({*losses, *missing})
    )


def _losses(recording: Recording) -> dict[int, dict[str, int]]:
    """The last value of each."""
    table = recording.detail("counters")
    wanted = np.array([text in PROVIDER_LOSSES for text in recording.names.texts], bool)
    found = recording.names.find(table["process"], table["name"])
    rows = np.flatnonzero(wanted[found] & np.isfinite(table["value"]))
    result: dict[int, dict[str, int]] = {}
    for row in rows[np.argsort(table["time_ns"][rows], kind="stable")].tolist():
        name, value = recording.names.texts[int(found[row])], int(table["value"][row])
        mine = result.setdefault(int(table["process"][row]), {})
        mine[name] = value
    return {process: mine for process, mine in result.items() if any(mine.values())}


def _missing(recording: Recording) -> dict[int, list[str]]:
    marks = recording.detail("marks")
    marks = marks.where(marks["kind"] == MarkKind.MARK)
    found = recording.names.find(marks["process"], marks["name"])
    result: dict[int, list[str]] = {}
    for process, number in zip(marks["process"].tolist(), found.tolist(), strict=True):
        told = _MISSING.fullmatch(recording.names.texts[number])
        if told is None or told[1] == _GPU:
            continue
        reasons = result.setdefault(process, [])
        text = f"{told[1]}: {told[2]}"
        if text not in reasons:
            reasons.append(text)
    return result
