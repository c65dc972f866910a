"""What findings do to each other, and which are shown."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from pilotlight.insights.finding import SHOWN_FROM_RATIO, Finding

# Rules whose findings are about one rank only.
BLAMES_A_RANK = frozenset({"A05", "A22", "A23", "A26", "A30"})


@dataclass(frozen=True)
class NotChecked:
    rule: str
    cause: str
    missing: str


def by_reason(rows: Iterable[NotChecked]) -> dict[str, list[str]]:
    """What is missing, with the rules that miss it."""
    found: dict[str, list[str]] = {}
    for row in rows:
        found.setdefault(row.missing, []).append(f"{row.rule} {row.cause}")
    return found


@dataclass(frozen=True)
class Diagnosis:
    """`joint_gain_ratio`: of all findings that were replayed, together; gains never add up.
    `pricing`: how the gains were found."""

    findings: tuple[Finding, ...]
    not_checked: tuple[NotChecked, ...]
    joint_gain_ratio: float | None = None
    pricing: str = ""


def worst_of_ranks(findings: Iterable[Finding]) -> list[Finding]:
    """One finding for each rule and cause: what several ranks have alike is one cause."""
    worst: dict[tuple[str, str], Finding] = {}
    for finding in findings:
        key = finding.rule, finding.cause
        known = worst.get(key)
        if known is None or finding.gain_ratio > known.gain_ratio:
            worst[key] = finding
    return list(worst.values())


def unexplained(findings: list[Finding], explains: Mapping[str, tuple[str, ...]]) -> list[Finding]:
    """Without those that another finding explains."""
    return [
        finding
        for finding in findings
        if not any(
            finding.rule in explains.get(other.rule, ()) and _is_enough(other, finding)
            for other in findings
        )
    ]


def _is_enough(other: Finding, finding: Finding) -> bool:
    """Whether it has at least half the gain, or a third of it and the same rank. What is wrong with
    one rank does not explain that another one is late."""
    if other.rank == finding.rank:
        return other.gain_high_ratio >= finding.gain_high_ratio / 3
    if {other.rule, finding.rule} <= BLAMES_A_RANK:
        return False
    return other.gain_high_ratio >= finding.gain_high_ratio / 2


def shown(findings: Iterable[Finding]) -> tuple[Finding, ...]:
    """Those worth showing, the greatest gain first, risks last."""
    kept = [
        finding
        for finding in findings
        if finding.is_risk or finding.gain_high_ratio >= SHOWN_FROM_RATIO
    ]
    return tuple(sorted(kept, key=lambda finding: (finding.is_risk, -finding.gain_ratio)))
