"""The part of `pilotlight analyze` that says what was found."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from pilotlight.cli import terminal
from pilotlight.printable import one_line
from pilotlight.report.units import duration

if TYPE_CHECKING:
    from rich.console import Console

    from pilotlight.analysis import Analysis
    from pilotlight.insights.finding import Finding

SHOWN_SPANS = 2
SHOWN_NAME = 60


def print_findings(found: Analysis, console: Console) -> None:
    """Each with its evidence and fix; what all of them gain; what could not be checked."""
    from pilotlight.insights.verdicts import by_reason

    # Viewers count from the begin of a trace.
    begins_ns = {t.rank: int(t.spans.start_ns.min()) for t in found.job.traces if len(t.spans)}
    for number, finding in enumerate(found.diagnosis.findings, 1):
        console.print(f"\n{number}. {one_line(finding.title)}", style="bold")
        for label, text in _lines(finding, begins_ns):
            terminal.print_labelled(console, label, text)
    if not found.diagnosis.findings and found.job.ranks:
        _print_nothing(found, console)
    if len(found.diagnosis.findings) > 1:
        _print_joint(found, console)
        console.print("\nGains of several findings overlap and do not add up.", style="dim")
    if found.diagnosis.not_checked:
        console.print("\nNot checked:", style="dim")
        for missing, rules in by_reason(found.diagnosis.not_checked).items():
            terminal.print_labelled(console, "", f"{missing}: {', '.join(rules)}", style="dim")


def _lines(finding: Finding, begins_ns: dict[int, int]) -> Iterator[tuple[str, str]]:
    yield "gain", f"{finding.gain_text} ({finding.confidence} confidence)"
    yield "where", finding.where
    for text in finding.evidence:
        yield "evidence", text
    for span in finding.spans[:SHOWN_SPANS]:
        name, took = span.name[:SHOWN_NAME], duration(span.duration_ns)
        after_ms = (span.start_ns - begins_ns.get(span.rank, 0)) / 1e6
        yield "look at", f"{name}, {took}, rank {span.rank}, {after_ms:.3f} ms into its trace"
    yield "do", f"{finding.fix}   ({finding.rule})"


def _print_nothing(found: Analysis, console: Console) -> None:
    from pilotlight.insights.idle import UNTOLD_RATIO

    console.print("\nNothing found that would gain 0.5 % of the step.")
    idle = max(view.whole.idle_ns / (view.whole.window_ns or 1) for view in found.job.ranks)
    if idle > UNTOLD_RATIO:
        console.print(f"No rule tells why a device idles {100 * idle:.1f} % of the time.")


def _print_joint(found: Analysis, console: Console) -> None:
    joint = found.diagnosis.joint_gain_ratio
    if joint is not None and found.diagnosis.pricing:
        text = f"\n{found.diagnosis.pricing}; all replayed findings together {100 * joint:.1f} %."
        console.print(text, style="dim")
