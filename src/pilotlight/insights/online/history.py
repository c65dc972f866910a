"""A39: a job against its own earlier runs, part by part and kernel by kernel."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from pilotlight.insights.finding import Finding, milliseconds

SHOWN_RATIO = 0.005
SPREADS = 4.0
CERTAINTY = 4.57  # two samples, one in a thousand by chance, nine in ten found
SHIFTED_RATIO = 0.5


@dataclass(frozen=True)
class Summary:
    """Of one run: what it takes a step, how much that varies, from how many steps. `family` joins
    what can replace each other, such as the kernels of one operator."""

    typical_ns: float
    deviation_ns: float
    count: int
    family: str = ""


def regressions(
    now: Mapping[str, Summary], history: Sequence[Mapping[str, Summary]], step_ns: float
) -> tuple[Finding, ...]:
    """Keys that take more than in the earlier runs, the newest of which comes last. What only moved
    from one key of a family to another is no regression."""
    if not history or step_ns <= 0:
        return ()
    grown = _grown(now, history)
    findings = []
    for key, (before_ns, increase_ns) in grown.items():
        family = now[key].family
        if family and _family_increase(now, history, family) < SHIFTED_RATIO * increase_ns:
            continue
        gain = increase_ns / step_ns
        if gain < SHOWN_RATIO:
            continue
        after_ns = now[key].typical_ns
        findings.append(
            Finding(
                rule="A39",
                cause="regression",
                title=f"{key} takes longer than in earlier runs",
                rank=None,
                place=key,
                evidence=(
                    f"{milliseconds(before_ns)} a step in the last {len(history)} runs,"
                    f" {milliseconds(after_ns)} now",
                    f"from {now[key].count} steps",
                ),
                fix="compare versions, environment, nodes and data of the runs: `pilotlight diff`",
                gain_low_ratio=gain / 2,
                gain_high_ratio=gain,
                confidence="high" if len(history) >= 3 else "medium",
            )
        )
    return tuple(sorted(findings, key=lambda finding: -finding.gain_high_ratio))


def _grown(
    now: Mapping[str, Summary], history: Sequence[Mapping[str, Summary]]
) -> dict[str, tuple[float, float]]:
    """By key what it took before, and by how much it grew beyond what runs and steps vary."""
    found = {}
    for key, summary in now.items():
        runs = [run[key] for run in history if key in run]
        if not runs:
            continue
        usual = np.array([run.typical_ns for run in runs])
        before = float(np.median(usual))
        between = 1.4826 * float(np.median(np.abs(usual - before)))
        within = CERTAINTY * math.sqrt(
            summary.deviation_ns**2 / max(1, summary.count)
            + runs[-1].deviation_ns ** 2 / max(1, runs[-1].count)
        )
        increase = summary.typical_ns - before
        if increase > max(SPREADS * between, within):
            found[key] = (before, increase)
    return found


def _family_increase(
    now: Mapping[str, Summary], history: Sequence[Mapping[str, Summary]], family: str
) -> float:
    def total(run: Mapping[str, Summary]) -> float:
        return sum(summary.typical_ns for summary in run.values() if summary.family == family)

    return total(now) - float(np.median([total(run) for run in history]))
