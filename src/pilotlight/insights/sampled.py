"""What hardware sampling found in a recording (docs/gpu.md), as evidence for findings."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from pilotlight.errors import PilotlightError
from pilotlight.insights.finding import Finding
from pilotlight.insights.kernel import short_name
from pilotlight.recording.recording import Recording
from pilotlight.report.hardware import WORDS as UNITS
from pilotlight.report.hardware import UnitUse, units_of
from pilotlight.report.kernel_use import KernelUse, kernels_of
from pilotlight.report.stalls import FunctionStalls, described, stalls_of
from pilotlight.trace.recorded import is_recording

# Fewer samples say nothing of a kernel.
LEAST_SAMPLES = 30
_TOLD_UNITS = ("tensor_active", "dram_active", "sm_occupancy")


@dataclass(frozen=True)
class Samples:
    """Of PC sampling, PM sampling and the range profiler."""

    stalls: tuple[FunctionStalls, ...] = ()
    units: tuple[UnitUse, ...] = ()
    kernels: tuple[KernelUse, ...] = ()

    def told_of(self, kernel: str) -> tuple[str, ...]:
        """What was sampled of a kernel, in words."""
        name, told = short_name(kernel), []
        for stalls in self.stalls:
            if short_name(stalls.function) == name and stalls.samples >= LEAST_SAMPLES:
                told.append(f"{name}, of {stalls.samples} PC samples: {described(stalls)}")
        for use in self.kernels:
            if short_name(use.kernel) == name:
                means = ", ".join(
                    f"{UNITS[unit]} {use.means[unit]:.0f} %"
                    for unit in _TOLD_UNITS
                    if unit in use.means
                )
                told.append(f"{name}, in {use.runs} runs with hardware metrics: {means}")
        return tuple(told)


NO_SAMPLES = Samples()


def samples_of(paths: Sequence[Path]) -> Samples:
    """Of the recordings among these; what cannot be read, the reader of traces has told."""
    found = NO_SAMPLES
    for path in paths:
        if not is_recording(path):
            continue
        try:
            recording = Recording.open(path)
            found = Samples(
                (*found.stalls, *stalls_of(recording)),
                (*found.units, *units_of(recording)),
                (*found.kernels, *kernels_of(recording)),
            )
        except PilotlightError:
            continue
    return found


def with_samples(findings: Sequence[Finding], samples: Samples) -> tuple[Finding, ...]:
    """With what was sampled of the kernels that a finding is about."""
    return tuple(
        replace(finding, evidence=(*finding.evidence, *_evidence(finding, samples)))
        for finding in findings
    )


def _evidence(finding: Finding, samples: Samples) -> tuple[str, ...]:
    named = [name for remedy in finding.remedies for name, _ in remedy.kernels]
    named += [span.name for span in finding.spans]
    kernels = dict.fromkeys(short_name(name) for name in named)
    return tuple(text for kernel in kernels for text in samples.told_of(kernel))
