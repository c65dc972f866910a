"""Rules about what carries bytes: PCIe, links between devices, how NCCL uses them."""

from __future__ import annotations

from collections import Counter, defaultdict

import numpy as np

from pilotlight.insights import signals
from pilotlight.insights.bandwidth import bus_factor
from pilotlight.insights.collective import PAIR, Collectives
from pilotlight.insights.finding import NO_GPU, Finding, Remedy, Verdict, percent
from pilotlight.insights.job import Job
from pilotlight.insights.rank import RankView
from pilotlight.model.hardware import Gpu, find_gpu
from pilotlight.trace.interval import union
from pilotlight.trace.trace import Float64, Kind

SLOW_LINK_RATIO = 0.8
PCIE_TIME_RATIO = 0.10
BEYOND_LINK = 1.4
SMALL_BYTES = 1 << 20
SMALL_VOLUME_RATIO = 0.50
SMALL_EXPOSED_RATIO = 0.05

_ERRORS = (
    ("nvlink_crc_errors", "NVLink CRC errors"),
    ("nvlink_replays", "NVLink replays"),
    ("nvlink_recoveries", "NVLink recoveries"),
    ("pcie_replays", "PCIe replays"),
    ("symbol_error", "InfiniBand symbol errors"),
    ("link_error_recovery", "InfiniBand link recoveries"),
)


def pcie_saturated(job: Job) -> Verdict:
    """A12: copies run at what the link can carry; only fewer bytes help."""
    known = [(view, gpu) for view in job.ranks if (gpu := _gpu(view)) is not None]
    if not known:
        return Verdict(missing=NO_GPU)
    findings = []
    for view, gpu in known:
        rate, share = _busiest_direction(view)
        exposed = view.whole.exposed_copy_ns / view.traced_ns
        # Far beyond it is another link than we believe, such as NVLink to the CPU.
        is_full = gpu.pinned_gb_per_s <= rate <= BEYOND_LINK * gpu.pinned_gb_per_s
        if share <= PCIE_TIME_RATIO or not is_full:
            continue
        findings.append(
            Finding(
                rule="A12",
                cause="pcie",
                title="The link to the host is saturated",
                rank=view.rank,
                place="PCIe",
                evidence=(
                    f"copies run at {rate:.1f} GB/s, pinned copies reach"
                    f" {gpu.pinned_gb_per_s:g} GB/s on this link",
                    f"copies take {percent(share)} of the time, {percent(exposed)} exposed",
                ),
                fix="copy less: compress, decode on the GPU, keep on the device, GPUDirect storage",
                gain_low_ratio=0.3 * exposed,
                gain_high_ratio=exposed,
                confidence="medium",
                remedies=(Remedy(roles=(("copy", 0.0),), ranks=(view.rank,)),),
            )
        )
    return Verdict(findings)


def _busiest_direction(view: RankView) -> tuple[float, float]:
    """GB/s of the copies to or from the host, whichever take more time, and their part of it."""
    found = (0.0, 0.0)
    for direction in ("HtoD", "DtoH"):
        wanted = np.array([direction in name for name in view.trace.names], np.bool_)
        copies = view.device.take(view.device.kind == Kind.MEMCPY)
        copies = copies.take(wanted[copies.name] & (copies.bytes > 0))
        total_ns = union(copies.start_ns, copies.end_ns).total_ns()
        if total_ns / view.traced_ns > found[1]:
            found = float(copies.bytes.sum()) / total_ns, total_ns / view.traced_ns
    return found


def degraded_link(job: Job) -> Verdict:
    """A24: a link counts errors while the job runs."""
    if not any(len(signals.values(v.trace, name)) for v in job.ranks for name, _ in _ERRORS):
        return Verdict(missing="no error counters of NVLink, PCIe or InfiniBand")
    findings = []
    for view in job.ranks:
        counts = [
            f"{text}: {grown:.0f} more"
            for name, text in _ERRORS
            if (grown := signals.growth(view, name)) > 0
        ]
        if not counts:
            continue
        exposed = (
            view.whole.exposed_communication_ns + view.whole.exposed_copy_ns
        ) / view.traced_ns
        findings.append(
            Finding(
                rule="A24",
                cause="degraded_link",
                title="A link of this rank has errors",
                rank=view.rank,
                place=f"links of rank {view.rank}",
                evidence=(*counts, f"exposed transfers: {percent(exposed)} of the step"),
                fix="reseat or replace the cable or the device; drain the node",
                gain_low_ratio=0.0,
                gain_high_ratio=exposed,
                confidence="low",
                is_risk=True,
            )
        )
    return Verdict(findings)


def slow_link(job: Job) -> Verdict:
    """A27: the same message takes longer in one group, or between two ranks, than in others."""
    matched = job.collectives
    if matched is None or not any(what.bytes for what in matched.what):
        return Verdict(missing="no sizes of messages with the collectives")
    rates = bus_rates(matched)
    kinds: dict[tuple[str, int, bool], list[str]] = defaultdict(list)
    for group, (operation, size, _) in rates.items():
        kinds[operation, size, group.startswith(PAIR)].append(group)
    if not any(len(groups) >= 3 for groups in kinds.values()):
        return Verdict(missing="needs three groups of the same size and operation")
    slow: list[str] = []
    usual_of: dict[str, float] = {}
    for groups in kinds.values():
        if len(groups) < 3:
            continue
        usual = float(np.median([rates[group][2] for group in groups]))
        found = [group for group in groups if rates[group][2] < SLOW_LINK_RATIO * usual]
        if len(found) <= len(groups) / 2:
            slow += found
            usual_of |= dict.fromkeys(found, usual)
    if not slow:
        return Verdict()
    return Verdict((_slow_link_finding(job, matched, rates, slow, usual_of),))


def nccl_settings(job: Job) -> Verdict:
    """A31: much of the volume goes in messages too small for the network."""
    matched = job.collectives
    messages = [v.trace.detail.messages for v in job.ranks]
    if not any(len(each.kind) for each in messages):
        return Verdict(missing="no sizes of messages with the collectives")
    findings = []
    for column, view in enumerate(job.ranks):
        found = view.trace.detail.messages
        if not len(found.kind):
            continue
        sizes = np.array([m.bytes for m in found.kinds])[found.kind].astype(np.float64)
        group = np.array([m.partner < 0 and m.size > 1 for m in found.kinds])[found.kind]
        sizes = sizes[group]
        small = float(sizes[sizes < SMALL_BYTES].sum() / max(1.0, sizes.sum()))
        if small <= SMALL_VOLUME_RATIO:
            continue
        transfers = matched.transfers(column) if matched else view.line.communication
        exposed = (transfers - view.line.compute).total_ns() / view.traced_ns
        if exposed < SMALL_EXPOSED_RATIO:
            continue
        findings.append(
            Finding(
                rule="A31",
                cause="nccl",
                title="Messages are too small for the network",
                rank=view.rank,
                place="collectives",
                evidence=(
                    f"{percent(small)} of the bytes go in messages under 1 MB",
                    f"{int((sizes < SMALL_BYTES).sum())} of {len(sizes)} messages",
                    f"exposed communication: {percent(exposed)} of the step",
                ),
                fix="larger buckets (bucket_cap_mb), coalesced calls; look at NCCL_DEBUG=INFO for"
                " NET/Socket, disabled P2P or SHM, and the wrong network card",
                gain_low_ratio=0.2 * exposed,
                gain_high_ratio=0.8 * exposed,
                confidence="low",
            )
        )
    return Verdict(findings)


def bus_rates(matched: Collectives) -> dict[str, tuple[str, int, float]]:
    """By group: its main operation, its size, and the median bandwidth over the bus in GB/s. Both
    directions between two ranks are one."""
    by_group: dict[str, list[tuple[str, int, float, int]]] = defaultdict(list)
    for what, shortest in zip(matched.what, matched.shortest_ns.tolist(), strict=True):
        if what.bytes and what.group and shortest > 0:
            rate = what.bytes * bus_factor(what.operation, what.size) / shortest
            by_group[_link(what.group)].append((what.operation, what.size, rate, what.bytes))
    found = {}
    for group, rows in by_group.items():
        largest = max(row[3] for row in rows)
        main = [row for row in rows if row[3] >= largest / 2]
        found[group] = (main[0][0], main[0][1], float(np.median([row[2] for row in main])))
    return found


def _link(group: str) -> str:
    if not group.startswith(PAIR):
        return group
    ends = sorted(int(text) for text in group.removeprefix(PAIR).split(" to "))
    return f"{PAIR}{ends[0]} to {ends[1]}"


def _slow_link_finding(
    job: Job,
    matched: Collectives,
    rates: dict[str, tuple[str, int, float]],
    slow: list[str],
    usual_of: dict[str, float],
) -> Finding:
    members: dict[str, set[int]] = defaultdict(set)
    for column, number in zip(matched.column.tolist(), matched.number.tolist(), strict=True):
        members[_link(matched.what[number].group)].add(matched.ranks[column])
    worst = min(slow, key=lambda group: rates[group][2] / usual_of[group])
    rank = _shared_rank([members[group] for group in slow])
    ratio = rates[worst][2] / usual_of[worst]
    gain = _lost_ratio(job, matched, slow, rates, usual_of)
    named = ", ".join(map(str, sorted(members[worst])[:8]))
    return Finding(
        rule="A27",
        cause="slow_link",
        title="A link is slower than the others",
        rank=rank,
        place=f"link of rank {rank}" if rank is not None else f"between ranks {named}",
        evidence=(
            f"{rates[worst][0]} among ranks {named}: {rates[worst][2]:.1f} GB/s over the bus,"
            f" elsewhere {usual_of[worst]:.1f} GB/s",
            f"{len(slow)} of {len(rates)} groups are slow",
        ),
        fix="look at the ports, cables and error counters of these nodes",
        gain_low_ratio=0.8 * gain,
        gain_high_ratio=gain,
        confidence="high" if ratio < 0.5 else "medium",
        remedies=(
            Remedy(
                groups=tuple(
                    (group, rates[_link(group)][2] / usual_of[_link(group)])
                    for group in sorted({what.group for what in matched.what})
                    if _link(group) in slow
                )
            ),
        ),
    )


def _shared_rank(groups: list[set[int]]) -> int | None:
    """The one rank that most slow groups have, if it is in two or more of them."""
    counts = Counter(rank for group in groups for rank in group).most_common(2)
    first, second = counts[0], counts[1]
    return first[0] if first[1] >= 2 and first[1] > second[1] else None


def _lost_ratio(
    job: Job,
    matched: Collectives,
    slow: list[str],
    rates: dict[str, tuple[str, int, float]],
    usual_of: dict[str, float],
) -> float:
    """What the slow transfers take longer where no compute hides it, on the worst rank."""
    factor: Float64 = np.array(
        [
            1 - rates[_link(what.group)][2] / usual_of[_link(what.group)]
            if _link(what.group) in slow
            else 0.0
            for what in matched.what
        ]
    )
    lost = []
    for column, view in enumerate(job.ranks):
        mine = (matched.column == column) & (factor[matched.number] > 0)
        end_ns = matched.start_ns[mine] + matched.duration_ns[mine]
        length = matched.shortest_ns[matched.number[mine]] * factor[matched.number[mine]]
        exposed = union(end_ns - length.astype(np.int64), end_ns) - view.line.compute
        lost.append(exposed.total_ns() / view.traced_ns)
    return max(lost)


def _gpu(view: RankView) -> Gpu | None:
    return find_gpu(view.trace.devices[0]) if view.trace.devices else None
