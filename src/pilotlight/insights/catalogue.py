"""All rules, in the order of their numbers, and what their findings do to each other."""

from __future__ import annotations

from collections.abc import Sequence
from importlib.metadata import entry_points

from pilotlight.insights import compute, distributed, feed, host, idle, spikes
from pilotlight.insights.finding import Finding, Rule
from pilotlight.insights.job import Job
from pilotlight.insights.verdicts import Diagnosis, NotChecked, shown, unexplained, worst_of_ranks

PLUGIN_GROUP = "pilotlight.insights"

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
    kept = unexplained(worst_of_ranks(findings), {rule.identity: rule.explains for rule in rules})
    return Diagnosis(shown(kept), tuple(not_checked))
