"""What the nodes of a job tell, or do not tell: silence, and errors of their devices."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from pilotlight.collector.watch.recent import MISSED_BATCHES, NodeEvent, RecentJob
from pilotlight.insights.finding import Finding
from pilotlight.ship.wire import gpu_number

_SILENT_NS = 45_000_000_000
# Agents that could not send come back one by one, within a minute.
_BACK_NS = 30_000_000_000
_LEAST_RANKS_SILENT = 2
_MOST_ERRORS = 8
# A link that changes or a GPU that is back is told in the events; nobody is woken for it.
_ERRORS = {
    "xid": (
        "The driver reports an error of {device} on {node}: {text}",
        "drain the node if it recurs; see NVIDIA's table of XID errors",
    ),
    "lost": (
        "{device} on {node} does not answer",
        "drain the node; reset the GPU or restart the machine",
    ),
    "oom_kill": (
        "The kernel killed processes of {device} on {node}: out of memory",
        "raise the limit of its control group, or load less at once",
    ),
}


def silent_nodes(job: RecentJob, now_ns: int) -> list[Finding]:
    """Nodes from which nothing comes while the others go on: where nobody was heard for a while, it
    counts from when the first was."""
    if len(job.ranks) < _LEAST_RANKS_SILENT:
        return []
    latest_ns = max(one.heard_ns for one in job.ranks.values())
    back_ns = job.resumed_ns + _BACK_NS if job.resumed_ns else 0
    quiet: dict[str, list[int]] = {}
    for rank, one in job.ranks.items():
        patience_ns = max(_SILENT_NS, MISSED_BATCHES * one.every_ns)
        if latest_ns - max(one.heard_ns, back_ns) > patience_ns and not one.ended_ns:
            quiet.setdefault(one.node, []).append(rank)
    return [
        Finding(
            rule="C01",
            cause="silent",
            title=f"Nothing comes from node {node}",
            rank=ranks[0] if len(ranks) == 1 else None,
            place=f"ranks {', '.join(map(str, sorted(ranks)))}",
            evidence=(f"{len(ranks)} ranks, silent for {_age_s(job, ranks, now_ns):.0f} s",),
            fix="is the node up, does its agent run, does it reach the collector?",
            gain_low_ratio=0.0,
            gain_high_ratio=1.0,
            confidence="medium",
        )
        for node, ranks in quiet.items()
    ]


def _age_s(job: RecentJob, ranks: Sequence[int], now_ns: int) -> float:
    return (now_ns - max(job.ranks[rank].heard_ns for rank in ranks)) / 1e9


def device_errors(job: RecentJob) -> list[Finding]:
    """Of what happened to devices since the last look, what a job may die of; and, in a quiet word,
    what happened to a device of a node that another job has."""
    events, job.events = job.events, []
    return [_device_error(job, one) for one in events if one.event.name in _ERRORS][-_MOST_ERRORS:]


def _device_error(job: RecentJob, happened: NodeEvent) -> Finding:
    node, event = happened.node, happened.event
    title, fix = _ERRORS[event.name]
    name = f"XID {event.value}: " if event.name == "xid" else ""
    said = Finding(
        rule="A24",
        cause=event.name,
        title=title.format(device=event.device, node=node, text=event.text or event.value),
        rank=None,
        place=f"{node} {event.device}",
        evidence=(f"{name}{event.text}",),
        fix=fix,
        gain_low_ratio=0.0,
        gain_high_ratio=1.0,
        confidence="high",
    )
    if not happened.is_own:
        return replace(
            said,
            cause="node_event",
            evidence=(*said.evidence, "no process of this job is on it"),
            fix="nothing, unless this job depends on the node as a whole",
            gain_high_ratio=0.0,
        )
    ranks = [
        rank
        for rank, one in job.ranks.items()
        if one.node == node and one.gpu == gpu_number(event.device) >= 0
    ]
    return replace(said, rank=ranks[0]) if len(ranks) == 1 else said
