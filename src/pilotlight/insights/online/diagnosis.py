"""All rules that work on windows, and what their findings do to each other."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from pilotlight.insights.finding import Finding, Verdict
from pilotlight.insights.online.devices import slow_links, throttling
from pilotlight.insights.online.ranks import imbalance, stragglers
from pilotlight.insights.online.stalled import hang
from pilotlight.insights.online.steps import checkpoints, garbage, irregular, loader, recompiles
from pilotlight.insights.online.window import STALL_STEPS, Ranks, RankWindow, ranks_of
from pilotlight.insights.verdicts import Diagnosis, NotChecked, shown, unexplained, worst_of_ranks

OnlineDiagnosis = Diagnosis
NO_STEPS = "no steps in the windows"

# What waiting for other ranks is taken out of before they are compared.
_COMPARING = (stragglers, imbalance)
# Rule, cause, check, and the rules whose findings it makes superfluous.
_RULES: tuple[tuple[str, str, Callable[[Ranks], Verdict], tuple[str, ...]], ...] = (
    ("A04", "gc", garbage, ("A26", "A29", "A34")),
    ("A06", "recompile", recompiles, ("A26", "A34")),
    ("A08", "loader", loader, ("A26", "A29", "A34")),
    ("A22", "throttle", throttling, ("A23", "A26")),
    ("A26", "straggler", stragglers, ("A29",)),
    ("A27", "slow_link", slow_links, ("A34",)),
    ("A29", "imbalance", imbalance, ()),
    ("A34", "irregular", irregular, ()),
    ("A37", "checkpoint", checkpoints, ("A26", "A34")),
)
ONLINE_RULES = frozenset(rule for rule, _, _, _ in _RULES)
_EXPLAINS = {rule: explains for rule, _, _, explains in _RULES} | {"A23": ("A26",)}


def diagnose_windows(
    windows: Sequence[RankWindow],
    now_ns: int | None = None,
    stall_steps: int = STALL_STEPS,
    told: Sequence[RankWindow] | None = None,
) -> OnlineDiagnosis:
    """What is wrong with a job now, from the last steps of its ranks. With `now_ns`, also whether
    it hangs: then nothing else is said. What stops steps is told from `stall_steps` of them on.
    `told`: the last steps of which the communication is known, where it is not of all; in these
    the ranks are compared."""
    not_checked = []
    if now_ns is not None:
        verdict = hang(windows, now_ns)
        if verdict.findings:
            return Diagnosis(tuple(verdict.findings), ())
        if verdict.missing:
            not_checked.append(NotChecked("A33", "hang", verdict.missing))
    ranks = ranks_of(windows, stall_steps)
    compared = ranks
    if told is not None:
        # Those of a trace follow each other.
        compared = ranks_of(told, stall_steps, are_apart=not ranks.are_traced)
    findings: list[Finding] = []
    for rule, cause, check, _ in _RULES:
        looked_at = compared if check in _COMPARING else ranks
        verdict = check(looked_at) if looked_at.windows else Verdict(missing=NO_STEPS)
        findings += verdict.findings
        if verdict.missing:
            not_checked.append(NotChecked(rule, cause, verdict.missing))
    kept = unexplained(worst_of_ranks(findings), _EXPLAINS)
    return Diagnosis(shown(kept), tuple(not_checked))
