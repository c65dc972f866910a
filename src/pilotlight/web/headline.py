"""The sentence that answers the question somebody came with."""

from __future__ import annotations

from statistics import fmean, median

from pilotlight.analysis import Analysis
from pilotlight.insights.finding import Finding
from pilotlight.insights.job import Job
from pilotlight.insights.verdicts import others_with


def headline(found: Analysis) -> str:
    """Of a trace: how long a step takes, what the device does in it, what to look at first."""
    job = found.job
    if not job.traces:
        return "Nothing could be read."
    text = _device(job) if job.ranks else _host(job)
    has_steps = job.step_count if job.ranks else any(len(trace.steps) for trace in job.traces)
    whole = "the step" if has_steps else "that time"
    if found.diagnosis.findings:
        return text + _first(found.diagnosis.findings[0], job, whole)
    if job.ranks:
        return f"{text}: nothing found that would gain 0.5 % of {whole}."
    return f"{text}: only the host can be looked at."


def _device(job: Job) -> str:
    busy, length = share(_busy(job)), duration(job.step_ns)
    if job.step_count:
        return f"Step {length}, device busy {busy}"
    # From the first to the last work of the device.
    return f"No step is marked; device busy {busy} of {length}"


def _host(job: Job) -> str:
    steps_ns = [int(ns) for trace in job.traces for ns in trace.steps.duration_ns]
    step = f"Step {duration(median(steps_ns))}" if steps_ns else "No step is marked"
    return f"{step}, no device activity"


def _busy(job: Job) -> float:
    return 1 - fmean(view.all_idle_ratio for view in job.ranks)


def _first(first: Finding, job: Job, whole: str) -> str:
    text = ""
    mine = [view for view in job.ranks if view.rank == first.rank]
    # Among many, the one that is to blame hardly shows in their mean.
    if mine and abs(1 - mine[0].all_idle_ratio - _busy(job)) >= 0.01:
        text = f", that of rank {first.rank} {share(1 - mine[0].all_idle_ratio)}"
    low, high = (_gain(r) for r in (first.gain_low_ratio, first.gain_high_ratio))
    gain = f"{low} to {high} %" if low != high else f"{high} %"
    is_said = not mine or len(job.ranks) < 2 or f"ank {first.rank} " in f"{first.title} "
    place = "" if is_said else _place(first, len(job.ranks))
    title = within(first.title)
    if place:
        title = title.replace(" of this rank", "")
    return f"{text}: {place}{title} (worth {gain} of {whole})."


def _place(finding: Finding, ranks: int) -> str:
    """What all ranks have is not the fault of the one with the most of it."""
    count = others_with(finding)
    if count and count + 1 == ranks:
        return "on all ranks "
    others = f"and {count} others " if count > 1 else "and another " if count else ""
    return f"on rank {finding.rank} {others}"


def _gain(ratio: float) -> str:
    """As the cards of findings say it."""
    return f"{100 * ratio:.0f}" if ratio >= 0.1 or ratio < 0.0005 else f"{100 * ratio:.1f}"


def within(title: str) -> str:
    """A title as a part of a sentence; what begins with a name or a number stays."""
    return title[:1].lower() + title[1:] if title[1:2].islower() else title


def duration(ns: float) -> str:
    if ns >= 120e9:
        return f"{ns // 60e9:.0f} min {ns % 60e9 / 1e9:.0f} s"
    for unit_ns, unit in ((1e9, "s"), (1e6, "ms"), (1e3, "µs")):
        if ns >= unit_ns:
            return f"{_three_digits(ns / unit_ns)} {unit}"
    return f"{ns:.0f} ns"


def share(ratio: float) -> str:
    return f"{_three_digits(100 * ratio)} %"


def _three_digits(number: float) -> str:
    if number >= 100:
        return f"{number:,.0f}"
    return f"{number:.1f}" if number >= 10 else f"{number:.2f}"
