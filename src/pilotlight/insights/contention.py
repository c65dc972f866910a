"""Rules about the CPU: cores that the rank has to share, workers that lack them, slow storage."""

from __future__ import annotations

import numpy as np

from pilotlight.insights import signals
from pilotlight.insights.distributed import waiting_deficit
from pilotlight.insights.finding import Finding, Remedy, Verdict, percent
from pilotlight.insights.idle_time import Idle, loader_waits
from pilotlight.insights.job import Job
from pilotlight.insights.rank import RankView
from pilotlight.insights.stage import like_its_peers

THROTTLED_PERCENT = 5.0
STEAL_PERCENT = 5.0
PRESSURE_PERCENT = 30.0
BUSY_PERCENT = 80.0
IO_PERCENT = 30.0
LOADER_RATIO = 0.02
COLD_RATIO = 3.0
# Of fewer, waits that only vary fall like this by chance once in twenty jobs.
COLD_STEPS = 18

_CPU = (
    ("throttled", THROTTLED_PERCENT, "its control group is throttled {:.0f} % of the time"),
    ("cpu_steal", STEAL_PERCENT, "the host's cores are taken away {:.0f} % of the time"),
    ("pressure_cpu_some", PRESSURE_PERCENT, "threads wait for a core {:.0f} % of the time"),
)


def cpu_contention(job: Job) -> Verdict:
    """A05: the rank's host threads do not get the cores that they need."""
    read = {name: [signals.mean(view, name) for view in job.ranks] for name, _, _ in _CPU}
    if not any(value is not None for row in read.values() for value in row):
        return Verdict(missing="no counters of the host's CPU or control group")
    findings = []
    for i, view in enumerate(job.ranks):
        evidence = []
        for name, limit, text in _CPU:
            value = read[name][i]
            others = [v for j, v in enumerate(read[name]) if j != i and v is not None]
            usual = float(np.median(others)) if others else 0.0
            if value is not None and value > limit + usual:
                evidence.append(text.format(value))
        if not evidence:
            continue
        deficit = waiting_deficit(job, i)
        gain = view.idle_ratio(Idle.HOST.value) if deficit is None else deficit
        findings.append(
            Finding(
                rule="A05",
                cause="cpu_contention",
                title="The host threads of this rank lack CPU",
                rank=view.rank,
                place=f"host of rank {view.rank}",
                evidence=(*evidence, f"the step is {percent(max(gain, 0.0))} longer for it"),
                fix="raise the CPU limit, pin the rank to cores next to its GPU, OMP_NUM_THREADS",
                gain_low_ratio=0.7 * max(gain, 0.0),
                gain_high_ratio=max(gain, 0.0),
                confidence="high",
                remedies=like_its_peers(job, i, ("host", "call")),
            )
        )
    return Verdict(findings)


def starved_workers(job: Job) -> Verdict:
    """A09: the loader waits because its workers have no CPU left."""
    return _input_reason(
        job,
        rule="A09",
        cause="loader_cpu",
        title="The loader's workers use up the CPU",
        counter="cpu",
        limit=BUSY_PERCENT,
        text="the host's cores are {:.0f} % busy",
        fix="augment on the GPU (DALI), tokenise in advance, as many workers as cores",
    )


def slow_storage(job: Job) -> Verdict:
    """A10: the loader waits for storage."""
    found = _input_reason(
        job,
        rule="A10",
        cause="storage",
        title="The loader waits for storage",
        counter="pressure_io_some",
        limit=IO_PERCENT,
        text="threads wait for storage {:.0f} % of the time",
        fix="a cache on local NVMe, larger sequential reads (tar shards), read-ahead",
    )
    if found.missing and "counters" in found.missing:
        return _cold_cache(job) or found
    return found


def _input_reason(
    job: Job, rule: str, cause: str, title: str, counter: str, limit: float, text: str, fix: str
) -> Verdict:
    waiting = _loader_ratio(job)
    if waiting is None:
        return Verdict(missing="no span of a data loader")
    view, ratio = waiting
    value = signals.mean(view, counter)
    if value is None:
        return Verdict(missing=f"no counters of the host: {counter}")
    if ratio <= LOADER_RATIO or value <= limit:
        return Verdict()
    finding = Finding(
        rule=rule,
        cause=cause,
        title=title,
        rank=view.rank,
        place="data loader",
        evidence=(
            text.format(value),
            f"the device idles while the loader works: {percent(ratio)} of the step",
        ),
        fix=fix,
        gain_low_ratio=0.5 * ratio,
        gain_high_ratio=ratio,
        confidence="medium",
        remedies=(Remedy(parts=("loader",)),),
    )
    return Verdict((finding,))


def _cold_cache(job: Job) -> Verdict | None:
    """Waits that shrink while the job runs: the page cache was cold."""
    waiting = _loader_ratio(job)
    if waiting is None or waiting[1] <= LOADER_RATIO or len(waiting[0].steady) < COLD_STEPS:
        return None
    view, ratio = waiting
    waits = [row.idle_by_cause_ns[Idle.LOADER.value] for row in view.steady]
    third = len(waits) // 3
    first, last = (float(np.median(part)) for part in (waits[:third], waits[-third:]))
    # Every early wait above every late one: waits that only vary do not fall like this.
    if first < COLD_RATIO * max(last, 1.0) or min(waits[:third]) < max(waits[-third:]):
        return None
    finding = Finding(
        rule="A10",
        cause="storage",
        title="The loader reads from a cold cache",
        rank=view.rank,
        place="data loader",
        evidence=(
            f"waits of the first third of the steps are {first / max(last, 1.0):.1f} times"
            " those of the last",
        ),
        fix="warm the cache before the start, or keep the data on local NVMe",
        gain_low_ratio=0.0,
        gain_high_ratio=ratio,
        confidence="low",
        remedies=(Remedy(parts=("loader",)),),
    )
    return Verdict((finding,))


def _loader_ratio(job: Job) -> tuple[RankView, float] | None:
    if not any(len(loader_waits(view.trace)) for view in job.ranks):
        return None
    return job.worst_idle(Idle.LOADER.value)
