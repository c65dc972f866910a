"""The first line: a sentence that answers the question somebody came with."""

from __future__ import annotations

import signal
from collections import Counter
from collections.abc import Sequence

from pilotlight.recording.recording import MAIN_THREAD
from pilotlight.recording.schema import BACK, LOST
from pilotlight.report import units
from pilotlight.report.phases import PhaseTimes
from pilotlight.report.report import ProcessFacts, Report
from pilotlight.report.steps import Outlier, ProcessSteps

SLOW_RANK_RATIO = 1.05
WAIT_RATIO = 0.1
ALIKE_RATIO = 0.8
CPU_WAIT_RATIO = 0.5
WAITS = {
    "data": "waiting for data",
    "communication": "communication",
    "checkpoint": "saving or loading checkpoints",
}


def headline(report: Report) -> str:
    """Why is it slow? Steps if there are any, else where the time went."""
    told = _steps(report) if report.steps else _without_steps(report)
    return " ".join([told, *_lost_gpus(report), *_lack_of_cpu(report), *_ends(report)])


def _steps(report: Report) -> str:
    slowest = max(report.steps, key=lambda steps: steps.median_ns)
    count = max(steps.count for steps in report.steps)
    middle = sorted(steps.median_ns for steps in report.steps)[(len(report.steps) - 1) // 2]
    text = f"A step takes {units.duration(middle)} ({units.plural(count, 'step')})"
    if len(report.steps) > 1 and slowest.median_ns > SLOW_RANK_RATIO * middle:
        extra = units.share(slowest.median_ns / middle - 1)
        text += f"; {report.label(slowest.process)} is {extra} slower than the median rank"
    text += _waits(report)
    number = sum(steps.outlier_count for steps in report.steps)
    if number:
        listed = [(steps, outlier) for steps in report.steps for outlier in steps.outliers]
        # The first step of a job compiles, allocates and warms up: it explains nothing later.
        later = [pair for pair in listed if not pair[1].is_first] or listed
        worst = max(later, key=lambda pair: pair[1].duration_ns)
        text += f"; {units.plural(number, 'outlier')}, the worst {_outlier(report, *worst)}"
    return text + "."


def _waits(report: Report) -> str:
    """What a step does instead of computing, where that is a tenth of it or more."""
    found = [times for times in report.phases if times.phase in WAITS]
    worst = max(found, key=lambda times: times.ratio, default=None)
    if worst is None or worst.ratio < WAIT_RATIO:
        return ""
    share = f"{units.share(worst.ratio)} of it{_where(report, worst)}"
    return f"; {share} is {WAITS[worst.phase]}{_late(report, worst)}"


def _where(report: Report, worst: PhaseTimes) -> str:
    """What all ranks have alike is not of the one with the most of it."""
    if len(report.steps) < 2:
        return ""
    ratios = [times.ratio for times in report.phases if times.phase == worst.phase]
    label = report.label(worst.process)
    if len(ratios) == len(report.steps) and min(ratios) >= ALIKE_RATIO * worst.ratio:
        return " on each rank" if label.startswith("rank ") else " in each process"
    return f" on {label}"


def _late(report: Report, worst: PhaseTimes) -> str:
    """Who communicates least is waited for: one rank, where that is much less than the others."""
    found = [times for times in report.phases if times.phase == worst.phase]
    if worst.phase != "communication" or len(found) < 2 or len(found) < len(report.steps):
        return ""
    least, second = sorted(found, key=lambda times: times.ratio)[:2]
    if second.ratio < 2 * least.ratio or second.ratio - least.ratio < WAIT_RATIO:
        return ""
    late = report.label(least.process)
    return f", mostly waiting for {late}, which has {units.share(least.ratio)} of it"


def _outlier(report: Report, steps: ProcessSteps, outlier: Outlier) -> str:
    who = f" of {report.label(steps.process)}" if len(report.steps) > 1 else ""
    text = f"{units.duration(outlier.duration_ns)} (step {outlier.step}{who}"
    if outlier.doing and outlier.doing_ratio >= 0.5:
        text += f", {units.share(outlier.doing_ratio)} in {units.printable(outlier.doing)}"
    return text + ")"


def _without_steps(report: Report) -> str:
    if not report.processes:
        return (
            "No process was recorded: no Python with pilotlight installed ran, or its probe could "
            "not start; `pilotlight doctor` says which."
        )
    if not report.functions and report.gpu.work:
        # A kernel says more than the graph that it is in.
        has_parts = any(work.is_in_graphs for work in report.gpu.work)
        said = [work for work in report.gpu.work if not (has_parts and work.kind == "graph")]
        most_work = said[0]
        return (
            f"{units.share(most_work.ratio)} of the work of the devices is "
            f"{units.printable(most_work.name)}; no Python code was sampled and no step was marked."
        )
    if not report.functions:
        return (
            f"Nothing was sampled in {units.duration(report.duration_ns)} and no step was marked: "
            "did it run Python code for a second or more?"
        )
    most = max(report.functions, key=lambda function: function.self_ns)
    whole_ns = report.functions_ns
    name = units.printable(most.function)
    has_main = any(thread.is_main for thread in report.threads)
    is_others = has_main and MAIN_THREAD not in report.functions_of_threads
    who = "the threads that run, while the main ones wait," if is_others else "the main threads"
    return (
        f"{units.share(most.self_ns / whole_ns if whole_ns else 0)} of the time of {who} is spent "
        f"in {name}; no step was marked (call `pilotlight.step()` once a step)."
    )


def _lost_gpus(report: Report) -> list[str]:
    """The last that is known of each: one that answers again is not lost."""
    last = {one.device: one for one in report.devices.events if one.name in (LOST, BACK)}
    return [
        f"{units.printable(one.device)} did not answer any more "
        f"after {units.duration(one.since_start_ns)}."
        for one in last.values()
        if one.name == LOST
    ]


def _lack_of_cpu(report: Report) -> list[str]:
    """The kernel calls a thread running that only wants to."""
    for one in report.devices.values:
        is_it = one.device == "host" and one.name == "pressure_cpu_some"
        if is_it and one.mean >= 100 * CPU_WAIT_RATIO:
            waited = units.share(one.mean / 100)
            return [f"Processes of this machine waited for a CPU {waited} of the time."]
    return []


def _ends(report: Report) -> list[str]:
    texts = [] if _died_alone(report) else _deaths(report.processes)
    if report.manifest.signal is not None:
        texts.append(f"The command was ended by {units.signal_name(report.manifest.signal)}.")
    elif report.manifest.exit_code:
        texts.append(f"The command ended with exit code {report.manifest.exit_code}.")
    if report.state == "cut":
        texts.append("The recording was cut: neither the agent nor the job is alive any more.")
    lost = report.losses.records_dropped
    lost += sum(one.lost_before_rings for one in report.gpu.processes)
    if lost:
        texts.append(f"{units.plural(lost, 'record')} lost, see below.")
    return texts


def _died_alone(report: Report) -> bool:
    """Whether what is said of the command says it all."""
    return report.manifest.signal is not None and len(report.processes) == 1


def _deaths(processes: Sequence[ProcessFacts]) -> list[str]:
    """Who ended badly, one sentence for each way: the first to end may have ended the others."""
    labels: dict[str, Counter[str]] = {}
    for facts in sorted(processes, key=lambda one: one.start_since_start_ns + one.duration_ns):
        way = _bad_end(facts)
        if way:
            labels.setdefault(way, Counter())[facts.label] += 1
    texts = []
    for way, counted in labels.items():
        # A rank that was started again may end again.
        those = [f"{one} ({n} times)" if n > 1 else one for one, n in counted.items()]
        names = ", ".join(those[:4])
        more = f" and {len(those) - 4} more" if len(those) > 4 else ""
        text = f"{names}{more} {way}."
        texts.append(text[0].upper() + text[1:])
    return texts


def _bad_end(facts: ProcessFacts) -> str:
    if facts.exception:
        return f"ended with {units.printable(facts.exception)}"
    if facts.how != "died":
        return ""
    if facts.exit_code is None:
        return "died"
    # So a pool ends its workers when it is closed: nothing to tell but of a rank.
    if -facts.exit_code == signal.SIGTERM and facts.rank is None:
        return ""
    return f"died of {units.signal_name(-facts.exit_code)}"
