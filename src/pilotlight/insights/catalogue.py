"""All rules, in the order of their numbers, and what their findings do to each other."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from importlib.metadata import EntryPoint, entry_points

from pilotlight.insights import (
    balance,
    compute,
    contention,
    distributed,
    feed,
    fusion,
    health,
    host,
    idle,
    late_host,
    links,
    overlap,
    serving,
    shapes,
    spikes,
    stalls,
)
from pilotlight.insights.advice import in_words_of
from pilotlight.insights.finding import Finding, Rule, Verdict
from pilotlight.insights.job import Job
from pilotlight.insights.pricing import Estimator
from pilotlight.insights.source_line import with_lines
from pilotlight.insights.verdicts import Diagnosis, NotChecked, shown, unexplained, worst_of_ranks

# Rules that look at steps only, or say where else to look.
_WITHOUT_DEVICES = ("A07", "A33", "A38", "A39")
PLUGIN_GROUP = "pilotlight.insights"


def _elsewhere(missing: str) -> Callable[[Job], Verdict]:
    """A rule that other input than traces of one run answers."""
    return lambda job: Verdict(missing=missing)


_SLOW_RANK = ("A02", "A25", "A26")

RULES: tuple[Rule, ...] = (
    Rule("A01", "launch", host.launch_bound, explains=("A02", "A13", "A19")),
    Rule("A02", "host", late_host.host_bound),
    Rule("A02q", "queued", idle.queued_work),
    Rule("A03", "sync", host.sync_points),
    Rule("A04", "gc", host.garbage_collection, explains=("A25", "A29", "A07")),
    Rule("A05", "cpu_contention", contention.cpu_contention, explains=("A01", *_SLOW_RANK)),
    Rule("A06", "recompile", stalls.recompilation, explains=("A02", "A07")),
    Rule("A07", "spikes", spikes.step_spikes),
    Rule("A08", "loader", feed.loader_bound, explains=("A25", "A26", "A07")),
    Rule("A09", "loader_cpu", contention.starved_workers, explains=("A08",)),
    Rule("A10", "storage", contention.slow_storage, explains=("A08",)),
    Rule("A11", "copies", feed.exposed_copies),
    Rule("A12", "pcie", links.pcie_saturated, explains=("A11",)),
    Rule("A13", "unfused", fusion.unfused_chains, explains=("A21",)),
    Rule("A14", "fp32", compute.fp32_without_tensor_cores, explains=("A17", "A21")),
    Rule("A15", "misaligned", shapes.misaligned_shapes, explains=("A21",)),
    Rule("A16", "waves", shapes.wave_quantisation, explains=("A21",)),
    Rule("A17", "below_roofline", shapes.below_roofline, explains=("A21",)),
    Rule("A18", "attention", compute.unfused_attention, explains=("A21",)),
    Rule("A19", "optimizer", fusion.unfused_optimizer, explains=("A13", "A21")),
    Rule("A20", "sync_norm", overlap.synchronized_norms, explains=("A25",)),
    Rule("A21", "low_mfu", health.busy_without_result),
    Rule("A22", "throttle", health.throttled_clock, explains=("A23", *_SLOW_RANK)),
    Rule("A23", "slow_gpu", compute.slow_device, explains=_SLOW_RANK),
    Rule("A24", "degraded_link", links.degraded_link),
    Rule("A25", "exposed_communication", distributed.exposed_communication, explains=("A21",)),
    Rule("A26", "straggler", distributed.straggler, explains=("A02", "A25")),
    Rule("A27", "slow_link", links.slow_link, explains=("A25", "A26")),
    Rule("A28", "stage_imbalance", balance.stage_imbalance, explains=("A25", "A26")),
    Rule("A29", "imbalance", balance.sample_imbalance, explains=("A23", "A25", "A26")),
    Rule("A30", "moe_imbalance", balance.expert_imbalance, explains=("A23", "A25", "A26", "A29")),
    Rule("A31", "nccl", links.nccl_settings),
    Rule("A32", "contended", overlap.slowed_by_communication),
    Rule("A33", "hang", _elsewhere("of dumps, not traces: pilotlight hang")),
    Rule("A34", "changed", spikes.changed_level),
    Rule("A35", "allocation", host.allocation, explains=("A02", "A03", "A26")),
    Rule("A36", "memory", health.memory),
    Rule("A37", "checkpoint", stalls.checkpoints, explains=("A02", "A07")),
    Rule("A38", "start", health.slow_start),
    Rule("A39", "regression", _elsewhere("of two runs: pilotlight diff BEFORE AFTER")),
    Rule("A40a", "small_batch", serving.small_batch),
    Rule("A40b", "prefill", serving.prefill_between),
    Rule("A40c", "kv_cache", serving.cache_pressure),
    Rule("A40d", "server_host", serving.host_between, explains=("A01", "A02", "A02q", "A03")),
    Rule("A40e", "queue", serving.queued_requests),
)


def plugin_rules() -> tuple[Rule, ...]:
    """Rules of installed packages: entry points that are a Rule. One that cannot be loaded, or
    fails, is listed as not checked; the others go on."""
    return tuple(_plugin_rule(point) for point in entry_points(group=PLUGIN_GROUP))


def _plugin_rule(point: EntryPoint) -> Rule:
    try:
        rule = point.load()
    except Exception as error:
        return Rule(point.name, "plug-in", _elsewhere(f"{point.value}: {_said(error)}"))
    if not isinstance(rule, Rule):
        return Rule(point.name, "plug-in", _elsewhere(f"{point.value} is no Rule"))

    def check(job: Job) -> Verdict:
        try:
            return rule.check(job)
        except Exception as error:
            return Verdict(missing=f"{point.value} failed: {_said(error)}")

    return replace(rule, check=check)


def _said(error: Exception) -> str:
    return " ".join(f"{type(error).__name__}: {error}".split())[:200]


def _explains(job: Job, rules: Sequence[Rule]) -> dict[str, tuple[str, ...]]:
    """A loader that is late on one rank makes the others wait in their collectives; where these are
    matched, exposed communication is without such waits and stands for itself."""
    found = {rule.identity: rule.explains for rule in rules}
    if "A08" in found and job.collectives is not None:
        found["A08"] = tuple(rule for rule in found["A08"] if rule != "A25")
    return found


def _checked(rule: Rule, job: Job) -> Verdict:
    if job.ranks or rule not in RULES or rule.identity in _WITHOUT_DEVICES:
        return rule.check(job)
    return Verdict(missing="no device activity in the traces")


def diagnose(job: Job, rules: Sequence[Rule] = RULES) -> Diagnosis:
    """The findings worth showing, the greatest gain first."""
    findings: list[Finding] = []
    not_checked = []
    for rule in rules:
        verdict = _checked(rule, job)
        findings += verdict.findings
        if verdict.missing:
            not_checked.append(NotChecked(rule.identity, rule.cause, verdict.missing))
    estimator = Estimator(job)
    found = worst_of_ranks(findings)
    kept = unexplained(found, _explains(job, rules), estimator.priced(found))
    more = idle.untold_idle(job, shown(kept)) if job.ranks else None
    if more is not None:
        kept += estimator.priced([more])
    placed = in_words_of(job, with_lines(job, shown(kept)))
    return Diagnosis(placed, tuple(not_checked), *estimator.together(placed))
