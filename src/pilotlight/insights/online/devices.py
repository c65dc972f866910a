"""Clocks and links, compared between the ranks."""

from __future__ import annotations

from collections import defaultdict

import numpy as np

from pilotlight.insights.bandwidth import bus_factor
from pilotlight.insights.finding import Finding, Verdict, percent
from pilotlight.insights.online.ranks import CLOCK_RATIO, THROTTLED_RATIO
from pilotlight.insights.online.window import (
    COMPUTE,
    EXPOSED_COMMUNICATION,
    SM_CLOCK_MHZ,
    THROTTLE_RATIO,
    CollectiveSum,
    Ranks,
)

SLOW_LINK_RATIO = 0.8
LEAST_BYTES = 1 << 20


def throttling(ranks: Ranks) -> Verdict:
    """A22: a device runs at a lower clock than its peers. If all do, that is a policy."""
    clock, throttled = ranks.counter(SM_CLOCK_MHZ), ranks.counter(THROTTLE_RATIO)
    if clock is None and throttled is None:
        return Verdict(missing="no clocks or throttle reasons of the devices")
    if len(ranks.windows) < 3:
        return Verdict(missing="needs three ranks or more")
    findings = []
    for i, window in enumerate(ranks.windows):
        peers = [
            j for j, other in enumerate(ranks.windows) if j != i and other.device == window.device
        ]
        if not peers:
            continue
        slower = 0.0
        evidence = []
        if clock is not None:
            usual = float(np.median(clock[peers]))
            slower = 1 - clock[i] / usual if usual else 0.0
            evidence.append(f"{clock[i]:,.0f} MHz, the others {usual:,.0f} MHz")
        often = (
            throttled is not None
            and throttled[i] > THROTTLED_RATIO
            and throttled[i] > 2 * float(np.median(throttled[peers]))
        )
        if throttled is not None and often:
            evidence.append(f"throttled in {percent(float(throttled[i]))} of the samples")
        if slower <= 1 - CLOCK_RATIO and not often:
            continue
        gain = max(slower, 0.0) * _compute_share(ranks, i)
        findings.append(
            Finding(
                rule="A22",
                cause="throttle",
                title=f"The device of rank {window.rank} runs at a lower clock",
                rank=window.rank,
                place=window.node or f"rank {window.rank}",
                evidence=tuple(evidence),
                fix="look at cooling, power limit and the node's power supply",
                gain_low_ratio=gain / 2,
                gain_high_ratio=max(gain, 0.005),
                confidence="high",
            )
        )
    return Verdict(findings)


def slow_links(ranks: Ranks) -> Verdict:
    """A27: one group moves its bytes more slowly than the others of its size."""
    by_kind: dict[tuple[str, int], dict[str, list[tuple[int, CollectiveSum]]]] = defaultdict(dict)
    for window in ranks.windows:
        for row in window.collectives:
            if row.bytes >= LEAST_BYTES and row.count:
                groups = by_kind[row.operation, row.size]
                groups.setdefault(row.group, []).append((window.rank, row))
    if not any(len(groups) >= 3 for groups in by_kind.values()):
        return Verdict(missing="needs three groups of the same size with collectives of 1 MB")
    findings = []
    for (operation, size), groups in by_kind.items():
        rate = {name: _bus_gb_per_s(operation, size, rows) for name, rows in groups.items()}
        if len(rate) < 3:
            continue
        usual = float(np.median(list(rate.values())))
        slow = [name for name in rate if rate[name] < SLOW_LINK_RATIO * usual]
        if not slow or len(slow) > len(rate) / 2:
            continue
        findings.append(_link_finding(ranks, operation, groups, rate, usual, slow))
    return Verdict(findings)


def _link_finding(
    ranks: Ranks,
    operation: str,
    groups: dict[str, list[tuple[int, CollectiveSum]]],
    rate: dict[str, float],
    usual: float,
    slow: list[str],
) -> Finding:
    worst = min(slow, key=lambda name: rate[name])
    members = [{rank for rank, _ in groups[name]} for name in slow]
    healthy = {rank for name in rate if name not in slow for rank, _ in groups[name]}
    shared = sorted(set.intersection(*members) - healthy)
    rank = shared[0] if len(shared) == 1 else None
    lost_ns = max(row.total_ns for _, row in groups[worst]) * (1 - rate[worst] / usual)
    exposed = ranks.part(EXPOSED_COMMUNICATION)
    if exposed is not None:
        lost_ns = min(lost_ns, float(exposed.max(axis=0).sum()))
    gain = min(1.0, lost_ns / ranks.total_ns) if ranks.total_ns else 0.0
    place = f"group {worst}, ranks {', '.join(str(r) for r in sorted(members[0])[:8])}"
    return Finding(
        rule="A27",
        cause="slow_link",
        title="A link is slower than the others",
        rank=rank,
        place=place if rank is None else f"rank {rank}",
        evidence=(
            f"{operation}: {rate[worst]:.1f} GB/s over the bus, other groups {usual:.1f} GB/s",
            f"{len(slow)} of {len(rate)} groups are slow",
        ),
        fix="look at the ports, cables and error counters of these nodes",
        gain_low_ratio=gain / 2,
        gain_high_ratio=gain,
        confidence="high" if rate[worst] < 0.5 * usual else "medium",
    )


def _bus_gb_per_s(operation: str, size: int, rows: list[tuple[int, CollectiveSum]]) -> float:
    """Of the rank that waited least: what it spent is the transfer."""
    shortest = min(row.total_ns - (row.wait_ns or 0.0) for _, row in rows)
    most = max(row.bytes for _, row in rows)
    return most * bus_factor(operation, size) / max(shortest, 1.0)


def _compute_share(ranks: Ranks, i: int) -> float:
    part = ranks.part(COMPUTE)
    if part is None or not ranks.step_ns[i].sum():
        return 0.5
    return min(1.0, float(part[i].sum() / ranks.step_ns[i].sum()))
