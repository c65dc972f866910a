"""What findings do to each other, and which are shown."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from pilotlight.insights.finding import SHOWN_FROM_RATIO, Finding

# What these lose is seen in the trace, and what causes it need not gain as much when it is gone.
SYMPTOMS = frozenset({"A25"})
# A rank that is made like its peers has their loader too: what the rules saw has to decide.
REPAIRS_THE_OTHER = frozenset({("A08", "A26")})
# Late for more than this beside its loader, a rank is late for something else as well.
LITTLE_BESIDE_RATIO = 0.5
_ON_OTHERS = re.compile(r"(\d+) other ranks? ha(?:s|ve) it too")
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
    alike: dict[tuple[str, str], list[Finding]] = {}
    for finding in findings:
        alike.setdefault((finding.rule, finding.cause), []).append(finding)
    return [_worst(rows) for rows in alike.values()]


def _worst(findings: list[Finding]) -> Finding:
    worst = max(findings, key=lambda finding: finding.gain_ratio)
    enough = worst.gain_high_ratio / 2
    others = sum(row.rank != worst.rank and row.gain_high_ratio >= enough for row in findings)
    return replace(worst, evidence=(*worst.evidence, *on_others(others)))


def on_others(count: int) -> tuple[str, ...]:
    """That other ranks have at least half of it: then it is not the fault of the one named."""
    if not count:
        return ()
    return (f"{count} other ranks have it too" if count > 1 else "1 other rank has it too",)


def others_with(finding: Finding) -> int:
    """How many other ranks have it too, as `on_others` says it."""
    told = (_ON_OTHERS.fullmatch(text) for text in finding.evidence)
    return next((int(match.group(1)) for match in told if match), 0)


def unexplained(
    findings: list[Finding],
    explains: Mapping[str, tuple[str, ...]],
    priced: list[Finding] | None = None,
) -> list[Finding]:
    """Without those that another finding explains: by what each rule saw, and, where gains were
    replayed, also by those. `priced` are the same findings with such gains."""
    replayed = findings if priced is None else priced

    def is_explained(i: int) -> bool:
        return any(
            findings[i].rule in explains.get(other.rule, ())
            and _is_enough(other, findings[i])
            and (
                findings[i].rule in SYMPTOMS
                or (other.rule, findings[i].rule) in REPAIRS_THE_OTHER
                or _is_enough(replayed[j], replayed[i])
            )
            for j, other in enumerate(findings)
        )

    return [finding for i, finding in enumerate(replayed) if not is_explained(i)]


def _is_enough(other: Finding, finding: Finding) -> bool:
    """Whether it has at least half the gain, or a third of it and the same rank. What is wrong with
    one rank does not explain that another one is late."""
    if (other.rule, finding.rule) in REPAIRS_THE_OTHER:
        little = LITTLE_BESIDE_RATIO * other.gain_high_ratio
        return other.rank == finding.rank and finding.gain_high_ratio <= little
    if other.rank == finding.rank:
        return other.gain_high_ratio >= finding.gain_high_ratio / 3
    if _blames_a_rank(other) and _blames_a_rank(finding):
        return False
    return other.gain_high_ratio >= finding.gain_high_ratio / 2


def _blames_a_rank(finding: Finding) -> bool:
    """By its rule, or because it is gone as soon as this rank is like its peers."""
    return finding.rule in BLAMES_A_RANK or any(remedy.alike for remedy in finding.remedies)


def shown(findings: Iterable[Finding]) -> tuple[Finding, ...]:
    """Those worth showing, the greatest gain first, risks last."""
    kept = [
        finding
        for finding in findings
        if finding.is_risk or finding.gain_high_ratio >= SHOWN_FROM_RATIO
    ]
    return tuple(sorted(kept, key=lambda finding: (finding.is_risk, -finding.gain_ratio)))
