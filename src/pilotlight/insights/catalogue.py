"""All rules, in the order of their numbers, and what their findings do to each other."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from importlib.metadata import entry_points

from pilotlight.insights import compute, distributed, feed, host, idle, spikes
from pilotlight.insights.finding import SHOWN_FROM_RATIO, Finding, Rule
from pilotlight.insights.job import Job

PLUGIN_GROUP = "pilotlight.rules"

RULES: tuple[Rule, ...] = (
    Rule("A01", "launch", host.launch_bound, explains=("A02",)),
    Rule("A02", "host", host.host_bound),
    Rule("A02q", "queued", idle.queued_work),
    Rule("A03", "sync", host.sync_points),
    Rule("A04", "gc", host.garbage_collection, explains=("A25", "A26")),
    Rule("A07", "spikes", spikes.step_spikes),
    Rule("A08", "loader", feed.loader_bound, explains=("A25", "A26")),
    Rule("A11", "copies", feed.exposed_copies),
    Rule("A14", "fp32", compute.fp32_without_tensor_cores),
    Rule("A18", "attention", compute.unfused_attention),
    Rule("A23", "slow_gpu", compute.slow_device, explains=("A25", "A26")),
    Rule("A25", "exposed_communication", distributed.exposed_communication),
    Rule("A26", "straggler", distributed.straggler, explains=("A02", "A25")),
    Rule("A35", "allocation", host.allocation, explains=("A02", "A03", "A26")),
)


@dataclass(frozen=True)
class NotChecked:
    rule: str
    cause: str
    missing: str


@dataclass(frozen=True)
class Diagnosis:
    findings: tuple[Finding, ...]
    not_checked: tuple[NotChecked, ...]


def plugin_rules() -> tuple[Rule, ...]:
    """Rules of installed packages: entry points that are a Rule."""
    return tuple(point.load() for point in entry_points(group=PLUGIN_GROUP))


def diagnose(job: Job, rules: Sequence[Rule] = RULES) -> Diagnosis:
    """The findings worth showing, the greatest gain first."""
    findings: list[Finding] = []
    not_checked = []
    for rule in rules:
        verdict = rule.check(job)
        findings += verdict.findings
        if verdict.missing:
            not_checked.append(NotChecked(rule.identity, rule.cause, verdict.missing))
    kept = _unexplained(_worst_of_ranks(findings), rules)
    shown = [f for f in kept if f.gain_high_ratio >= SHOWN_FROM_RATIO]
    shown.sort(key=lambda finding: -finding.gain_ratio)
    return Diagnosis(tuple(shown), tuple(not_checked))


def _worst_of_ranks(findings: Iterable[Finding]) -> list[Finding]:
    """One finding a rule: what several ranks have alike is one cause."""
    worst: dict[str, Finding] = {}
    for finding in findings:
        known = worst.get(finding.rule)
        if known is None or finding.gain_ratio > known.gain_ratio:
            worst[finding.rule] = finding
    return list(worst.values())


def _unexplained(findings: list[Finding], rules: Sequence[Rule]) -> list[Finding]:
    """Without those that another finding explains: it says so and has at least half their gain."""
    explainers = {rule.identity: rule.explains for rule in rules}
    return [
        finding
        for finding in findings
        if not any(
            finding.rule in explainers.get(other.rule, ())
            and other.gain_high_ratio >= finding.gain_high_ratio / 2
            for other in findings
        )
    ]
