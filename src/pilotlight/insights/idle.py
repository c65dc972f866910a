"""Rules about idle time that is not the host's."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce

import numpy as np

from pilotlight.insights.finding import (
    Finding,
    Remedy,
    SpanReference,
    Verdict,
    milliseconds,
    percent,
)
from pilotlight.insights.host import TINY_RATIO
from pilotlight.insights.idle_time import Idle
from pilotlight.insights.job import Job
from pilotlight.insights.late_host import host_operators_during, told_operators
from pilotlight.insights.rank import RankView
from pilotlight.trace.interval import Intervals
from pilotlight.trace.trace import NONE, Kind

QUEUED_RATIO = 0.15
UNTOLD_RATIO = 0.25
UNTOLD_PART = 0.25
JUST_BEFORE_NS = 100_000


def untold_idle(job: Job, told: Sequence[Finding]) -> Finding | None:
    """A02 again, for a device that idles for much of the step while all that was found would gain
    little of that: the replay tells whether it waits for its host, whatever the gaps begin with."""
    ratio, view = max(((view.all_idle_ratio, view) for view in job.ranks), key=lambda row: row[0])
    if ratio <= UNTOLD_RATIO or not (view.launch != NONE).any():
        return None
    if any(finding.gain_high_ratio >= UNTOLD_PART * ratio for finding in told):
        return None
    causes = {cause: view.idle_ratio(cause.value) for cause in Idle}
    worst = max(causes, key=lambda cause: causes[cause])
    gaps = reduce(Intervals.__or__, view.line.idle.values())
    busy = host_operators_during(view, gaps)
    return Finding(
        rule="A02",
        cause="host",
        title="The device waits for the host",
        rank=view.rank,
        place=busy[0][0] if busy else "host",
        evidence=(
            f"the device idles {percent(ratio)} of the step, most of it: {worst.value}",
            *told_operators(busy),
        ),
        fix="less work of the host between launches, or work for the device meanwhile",
        gain_low_ratio=0.0,
        gain_high_ratio=ratio,
        confidence="low",
        remedies=(Remedy(roles=(("host", TINY_RATIO), ("call", TINY_RATIO))),),
    )


def queued_work(job: Job) -> Verdict:
    """A02q: the launch call has returned, the device idles, and the work does not start."""
    if not any((view.launch != NONE).any() for view in job.ranks):
        return Verdict(missing="no launch calls that belong to the kernels")
    findings = []
    for view in job.ranks:
        ratio = view.idle_ratio(Idle.QUEUED.value)
        gaps = view.line.idle[Idle.QUEUED]
        if ratio <= QUEUED_RATIO or not len(gaps):
            continue
        lengths = gaps.lengths_ns()
        longest = int(lengths.argmax())
        findings.append(
            Finding(
                rule="A02q",
                cause="queued",
                title="Launched work starts late",
                rank=view.rank,
                place="device queue",
                evidence=(
                    f"the device idles with work already launched: {percent(ratio)} of the step",
                    f"the longest such gap: {milliseconds(int(lengths[longest]))}",
                    *_awaited(view, int(gaps.end_ns[longest])),
                ),
                fix="look for waits between streams, graph uploads and other processes on the GPU",
                gain_low_ratio=0.0,
                gain_high_ratio=ratio,
                confidence="low",
                spans=(
                    SpanReference(
                        view.rank, "gap", int(gaps.start_ns[longest]), int(lengths[longest])
                    ),
                ),
            )
        )
    return Verdict(findings)


def _awaited(view: RankView, end_ns: int) -> tuple[str, ...]:
    """What tells that the launch after a gap had to wait for another stream."""
    rows = np.flatnonzero((view.device.start_ns == end_ns) & (view.launch != NONE))
    if not len(rows):
        return ()
    call = int(view.launch[rows[0]])
    launched_ns, lane = int(view.calls.start_ns[call]), int(view.calls.lane[call])
    calls = view.trace.of_kind(Kind.RUNTIME)
    before = (calls.lane == lane) & (calls.start_ns < launched_ns)
    near = before & (calls.start_ns > launched_ns - JUST_BEFORE_NS)
    names = {view.trace.names[name] for name in np.unique(calls.name[near])}
    waits = sorted(name for name in names if "StreamWaitEvent" in name)
    if not waits:
        return ()
    return (
        f"just before its launch: {waits[0]}. It waits for another stream, where the trace shows"
        " nothing: work from before the trace began, or lost",
    )
