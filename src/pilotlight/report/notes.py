"""The parts of a report that are sentences: collections, losses, and what pilotlight cost."""

from __future__ import annotations

from pilotlight.report import units
from pilotlight.report.losses import Gap
from pilotlight.report.report import Report

_LINES = 12


def garbage_notes(report: Report) -> list[str]:
    if not report.garbage:
        return ["none seen"]
    worst = sorted(report.garbage, key=lambda times: -times.total_ns)
    lines = []
    for times in worst[:4]:
        where = times.longest_since_start_ns
        after = f", {units.duration(where)} after the start" if where is not None else ""
        lines.append(
            f"{report.label(times.process)}: {units.plural(times.count, 'collection')}, "
            f"{units.duration(times.total_ns)} ({units.share(times.ratio)} of the time), "
            f"longest {units.duration(times.longest_ns)}{after}"
        )
    if len(worst) > 4:
        lines.append(f"and {len(worst) - 4} more processes")
    return lines


def _steps_of(gap: Gap) -> str:
    if gap.first_step is None:
        return f", until step {gap.last_step}" if gap.last_step is not None else ""
    if gap.last_step is None:
        return f", from step {gap.first_step} on"
    if gap.last_step < gap.first_step:
        return f", between steps {gap.last_step} and {gap.first_step}"
    if gap.last_step == gap.first_step:
        return f", step {gap.first_step}"
    return f", steps {gap.first_step} to {gap.last_step}"


def loss_notes(report: Report) -> list[str]:
    losses = report.losses
    lines = []
    for gap in losses.gaps[:_LINES]:
        begin, end = (
            units.duration(gap.first_since_start_ns),
            units.duration(gap.last_since_start_ns),
        )
        lines.append(
            f"{report.label(gap.process)}: {units.count(gap.count)} records between {begin} and "
            f"{end}{_steps_of(gap)}: {gap.reason}"
        )
    for one in report.gpu.processes[:_LINES]:
        if one.lost_before_rings:
            count = units.count(one.lost_before_rings)
            lines.append(f"{report.label(one.process)}: {count} device records, see GPU")
    early = [facts for facts in report.processes if facts.detail_since_start_ns > 0 and facts.times]
    late = [facts for facts in early if facts.detail_since_start_ns > facts.start_since_start_ns]
    if late:
        until = units.duration(max(facts.detail_since_start_ns for facts in late))
        lines.append(
            f"before {until} only sums of 10 s are kept: no threads, no self time of ranges"
        )
    for number, noun, what in (
        (losses.chunks_dropped, "chunk", "of detail dropped for the budget"),
        (losses.rows_dropped, "row", "dropped by the recorder"),
        (
            losses.samples_torn,
            "sample",
            "dropped: the stack changed while it was read, or over 512 threads",
        ),
        (losses.passes_skipped, "round", "of the sampler left out to keep its cost down"),
    ):
        if number:
            lines.append(f"{units.plural(number, noun)} {what}")
    lines += [f"write error: {error}" for error in losses.write_errors[:_LINES]]
    lines += list(losses.warnings[:_LINES])
    if len(losses.warnings) > _LINES:
        lines.append(f"and {len(losses.warnings) - _LINES} more warnings, see --json")
    return lines or ["nothing: no record was lost"]


def overhead_notes(report: Report) -> list[str]:
    overhead = report.overhead
    samplers = overhead.samplers
    sampler = units.NOT_MEASURED
    if samplers:
        worst = max(samplers, key=lambda cost: cost.cpu_ratio)
        slowest = min(samplers, key=lambda cost: cost.achieved_hz)
        sampler = (
            f"{units.share(worst.cpu_ratio)} of a core at most, "
            f"{units.frequency(slowest.achieved_hz)} reached at least of "
            f"{units.frequency(slowest.asked_hz)} asked"
        )
    ratio, rss_bytes = overhead.agent_cpu_ratio, overhead.agent_rss_bytes
    agent = units.NOT_MEASURED if ratio is None else f"{units.share(ratio)} of a core"
    memory = units.NOT_MEASURED if rss_bytes is None else units.size(rss_bytes)
    return [
        f"sampler in each process: {sampler}",
        f"agent: {agent}, memory {memory}",
        f"detail on disk: {units.size(overhead.recorded_bytes)}",
    ]
