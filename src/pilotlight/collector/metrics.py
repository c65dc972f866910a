"""What can be measured of jobs, findings and the collector itself; for Prometheus as text."""

from __future__ import annotations

import os
import resource
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from pilotlight.ship.wire import PARTS

if TYPE_CHECKING:
    from pilotlight.collector.collector import Collector

MOST_JOBS = 200
_MOST_KINDS = 50
MOST_RANKS = 2000
"""A scrape has at most this many series of each kind; how many are left out is a metric too."""

Labels = Mapping[str, str]


@dataclass(frozen=True)
class Family:
    """`kind` is gauge or counter; the unit is the end of the name."""

    name: str
    kind: str
    help: str
    values: list[tuple[Labels, float]]


class Families:
    """What is measured now, each name with its help and kind once."""

    def __init__(self) -> None:
        self.found: list[Family] = []

    def add(self, name: str, kind: str, help: str, values: Iterable[tuple[Labels, float]]) -> None:
        self.found.append(Family(name, kind, help, list(values)))


def exposition(collector: Collector, tenant: str) -> str:
    """Prometheus' text format."""
    lines = []
    for family in [*tenant_metrics(collector, tenant), *own_metrics(collector)]:
        lines += [f"# HELP {family.name} {family.help}", f"# TYPE {family.name} {family.kind}"]
        for labels, value in family.values:
            inner = ",".join(f'{key}="{_escaped(text)}"' for key, text in labels.items())
            lines.append(
                f"{family.name}{{{inner}}} {value!r}" if inner else f"{family.name} {value!r}"
            )
    return "\n".join(lines) + "\n"


def tenant_metrics(collector: Collector, tenant: str) -> list[Family]:
    """Of the jobs of a tenant; bounded."""
    out = Families()
    _jobs(out, collector, tenant)
    _findings(out, collector, tenant)
    _agents(out, collector, tenant)
    return out.found


def own_metrics(collector: Collector) -> list[Family]:
    """Of the collector itself."""
    out = Families()
    _own(out, collector)
    return out.found


def _jobs(out: Families, collector: Collector, tenant: str) -> None:
    jobs = [job for job in collector.watcher.jobs() if job.tenant == tenant]
    left_out = max(0, len(jobs) - MOST_JOBS)
    jobs = jobs[:MOST_JOBS]
    ranks, steps, parts, sampling, overhead = [], [], [], [], []
    room = MOST_RANKS
    for job in jobs:
        ranks.append(({"job_name": job.job}, float(len(job.ranks))))
        sums = np.zeros(2 + len(PARTS))
        for rank, one in sorted(job.ranks.items()):
            if not len(one.rows):
                continue
            recent = one.rows[-60:]
            sums += [len(recent), recent[:, 2].sum(), *recent[:, 3 : 3 + len(PARTS)].sum(axis=0)]
            if room > 0:
                labels = {"job_name": job.job, "rank": str(rank), "node": one.node}
                steps.append((labels, float(recent[:, 2].mean() / 1e9)))
                room -= 1
            else:
                left_out += 1
        costs = [one.cost for one in job.ranks.values()]
        if spent := [cost.sampler_ratio for cost in costs if cost.sampler_ratio is not None]:
            sampling.append(({"job_name": job.job}, float(max(spent))))
        if measured := [cost.overhead_high for cost in costs if cost.overhead_high is not None]:
            overhead.append(({"job_name": job.job}, float(max(measured))))
        if sums[1]:
            for index, part in enumerate(PARTS):
                labels = {"job_name": job.job, "part": part.removesuffix("_ns")}
                parts.append((labels, float(sums[2 + index] / sums[1])))
    out.add("pilotlight_job_ranks", "gauge", "Ranks of a running job.", ranks)
    out.add("pilotlight_step_duration_seconds", "gauge", "Mean of a rank's latest steps.", steps)
    out.add("pilotlight_step_part_ratio", "gauge", "Part of the latest steps' time.", parts)
    out.add(
        "pilotlight_job_sampler_cpu_ratio", "gauge",
        "What stacks cost the rank that pays most, of a core.", sampling,
    )  # fmt: skip
    out.add(
        "pilotlight_job_overhead_ratio", "gauge",
        "Upper end of the measured overhead, of the rank with the most.", overhead,
    )  # fmt: skip
    out.add(
        "pilotlight_series_left_out", "gauge", "Jobs and ranks beyond the limit of a scrape.",
        [({}, float(left_out))],
    )  # fmt: skip


def _agents(out: Families, collector: Collector, tenant: str) -> None:
    """What recording itself costs and loses, and which agents are not heard of any more."""
    agents = sorted(
        (one for one in collector.watcher.agents() if one.tenant == tenant),
        key=lambda one: (one.node, one.agent),
    )[:MOST_RANKS]
    for name, kind, help, values in (
        ("cpu_ratio", "gauge", "CPU time of an agent, of a core.",
         [one.facts.cpu_ratio for one in agents]),
        ("resident_bytes", "gauge", "Memory of an agent.",
         [one.facts.rss_bytes for one in agents]),
        ("outbox_bytes", "gauge", "Batches that wait for a collector.",
         [one.facts.spool_bytes for one in agents]),
        ("records_dropped_total", "counter", "Records that probes could not keep.",
         [one.facts.records_dropped for one in agents]),
        ("batches_lost_total", "counter", "Batches that no collector took.",
         [one.facts.batches_lost for one in agents]),
        ("clock_offset_seconds", "gauge", "Of the collector's clock to the agent's.",
         [one.offset_ns / 1e9 for one in agents]),
        ("last_batch_timestamp_seconds", "gauge", "When the last batch of an agent came.",
         [one.heard_ns / 1e9 for one in agents]),
    ):  # fmt: skip
        labels = ({"node": one.node, "agent": one.agent} for one in agents)
        told = zip(labels, map(float, values), strict=True)
        out.add(f"pilotlight_agent_{name}", kind, help, told)


def _findings(out: Families, collector: Collector, tenant: str) -> None:
    counts: dict[tuple[str, str, str], int] = {}
    for one in collector.watcher.open_findings():
        if one.key[0] == tenant:
            key = (one.key[1], one.finding.cause, one.severity)
            counts[key] = counts.get(key, 0) + 1
    out.add(
        "pilotlight_findings_open",
        "gauge",
        "Open findings by job, cause and severity.",
        (
            ({"job_name": job, "cause": cause, "severity": severity}, float(count))
            for (job, cause, severity), count in list(counts.items())[:MOST_RANKS]
        ),
    )


def _own(out: Families, collector: Collector) -> None:
    taken = collector.writer.taken
    usage = resource.getrusage(resource.RUSAGE_SELF)
    for name, help, value in (
        ("batches_received_total", "Batches acknowledged.", taken.batches),
        ("batches_duplicate_total", "Batches that had been taken before.", taken.duplicates),
        (
            "batches_replayed_total",
            "Batches found in the spool at the start.",
            taken.replayed_batches,
        ),
        ("batches_inserted_total", "Batches that are in the tables.", taken.inserted_batches),
        ("batches_refused_total", "Batches that were no batches.", sum(taken.refused.values())),
        ("segments_aside_total", "Spool segments that the engine did not take.", taken.aside),
        ("spool_damaged_total", "Damaged places in the spool.", taken.damaged),
        (
            "insert_failures_total",
            "Inserts that failed and were tried again.",
            taken.insert_failures,
        ),
        ("rows_received_total", "Rows acknowledged.", taken.rows),
        ("received_bytes_total", "Bytes of batches acknowledged.", taken.bytes),
        ("captures_requested_total", "Captures asked for.", collector.desk.counts["requested"]),
        ("findings_opened_total", "Findings opened.", collector.watcher.counts["opened"]),
        (
            "process_cpu_seconds_total",
            "CPU time of the collector.",
            usage.ru_utime + usage.ru_stime,
        ),
    ):
        out.add(f"pilotlight_collector_{name}", "counter", help, [({}, float(value))])
    for name, help, value in (
        (
            "spool_waiting_bytes",
            "Acknowledged, not yet in the tables.",
            collector.writer.waiting_bytes,
        ),
        (
            "spool_waiting_batches",
            "Batches not yet in the tables.",
            collector.writer.waiting_batches,
        ),
        ("agents_waiting", "Agents that wait for requests.", collector.doorbell.waiting),
        ("uptime_seconds", "Since the start.", (time.time_ns() - collector.started_ns) / 1e9),
        ("process_resident_bytes", "Memory of the collector.", _resident_bytes()),
    ):
        out.add(f"pilotlight_collector_{name}", "gauge", help, [({}, float(value))])
    out.add(
        "pilotlight_collector_requests_refused_total",
        "counter",
        "Requests turned away, by reason.",
        (({"reason": reason}, float(count)) for reason, count in collector.refused.items()),
    )
    for name, help, counts in (
        ("captures_total", "Captures by what became of them.", collector.desk.counts),
        ("alerts_total", "Announcements by what became of them.", collector.announcer.counts),
        ("watch_total", "What watching over jobs did and did not.", collector.watcher.counts),
    ):
        found = [
            ({"what": what}, float(count)) for what, count in list(counts.items())[:_MOST_KINDS]
        ]
        out.add(f"pilotlight_collector_{name}", "counter", help, found)
    out.add(
        "pilotlight_collector_otlp_pushes_total",
        "counter",
        "Pushes to an OpenTelemetry receiver, by signal and what became of them.",
        (
            ({"signal": signal, "result": result}, float(count))
            for (signal, result), count in list(collector.pushed.items())
        ),
    )
    out.add(
        "pilotlight_collector_otlp_left_out_total",
        "counter",
        "What no push of profiles has: stacks beyond its bounds, late batches, seconds.",
        (({"what": what}, float(count)) for what, count in list(collector.not_pushed.items())),
    )


def _resident_bytes() -> int:
    try:
        with open("/proc/self/statm") as stream:  # noqa: PTH123 - not a file of ours
            return int(stream.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError, IndexError):
        return 0


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
