"""A recorded job with the causes of findings gone."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from pilotlight.insights.finding import Remedy
from pilotlight.insights.recorded_graph import RecordedGraph, Role
from pilotlight.trace.trace import Bool, Float64, Int64


def repaired_ns(graph: RecordedGraph, remedies: Sequence[Remedy]) -> float:
    """How long the whole takes with all these causes gone."""
    duration = graph.duration_ns.copy()
    after = graph
    for remedy in remedies:
        duration = _repaired(graph, duration, remedy)
        if remedy.waits:
            after = after.without_waits(remedy.waits)
            duration = without_calls(graph, duration, remedy.waits)
    return after.total_ns(duration)


def without_calls(graph: RecordedGraph, duration_ns: Float64, kind: str) -> Float64:
    """A program that does not wait for the device still asks for results; one that takes no memory
    from the driver does not call it either."""
    if kind != "allocation":
        return duration_ns
    return np.where(graph.waits(kind), 0.0, duration_ns)


def alike(
    graph: RecordedGraph,
    duration_ns: Float64,
    roles: Sequence[str],
    ranks: Sequence[int],
    peers: Sequence[int],
) -> Float64:
    """What these ranks do alone takes as long as on the median peer, launch by launch where all
    do the same number of launches, else in the mean; never longer."""
    changed: Float64 = duration_ns.copy()
    for by_rank in _by_name(graph, roles, {*ranks, *peers}):
        models = [by_rank[rank] for rank in peers if rank in by_rank]
        for rank in ranks:
            mine = by_rank.get(rank)
            if mine is None or not models:
                continue
            if all(len(nodes) == len(mine) for nodes in models):
                typical = np.median([duration_ns[nodes] for nodes in models], axis=0)
            else:
                usual = np.median([duration_ns[nodes].mean() for nodes in models])
                typical = duration_ns[mine] * usual / max(duration_ns[mine].mean(), 1.0)
            if typical.sum() < duration_ns[mine].sum():
                changed[mine] = typical
    return changed


def of_role(graph: RecordedGraph, role: str) -> Bool:
    """Calls that copy take their time because of the copy."""
    chosen: Bool = graph.role == Role[role.upper()]
    if role == "copy":
        copies = np.array(["emcpy" in name for name in graph.names], np.bool_)
        chosen = chosen | ((graph.role == Role.CALL) & copies[graph.name])
    return chosen


def _repaired(graph: RecordedGraph, duration_ns: Float64, remedy: Remedy) -> Float64:
    duration = duration_ns
    mine = _on_ranks(graph, remedy)
    if remedy.peers:
        duration = alike(graph, duration, remedy.alike, remedy.ranks, remedy.peers)
    if remedy.is_shared:
        duration = _shared(graph, duration, frozenset(remedy.own_level))
    for role, factor in remedy.roles:
        # A faster host does not make its loader, the collector or the compiler faster.
        kept = np.minimum(sum(graph.parts_ns.values()), duration) if role == "host" else 0.0
        scaled = kept + (duration - kept) * factor
        duration = np.where(mine & of_role(graph, role), scaled, duration)
    if remedy.kernels:
        by_name = dict(remedy.kernels)
        factors = np.array([by_name.get(name, 1.0) for name in graph.names])
        chosen = mine & (graph.role == Role.KERNEL)
        duration = np.where(chosen, duration * factors[graph.name], duration)
    if remedy.groups:
        by_group = dict(remedy.groups)
        factors = np.array([*(by_group.get(name, 1.0) for name in graph.groups), 1.0])
        duration = duration * factors[graph.group]
    for part in remedy.parts:
        taken = np.where(mine, graph.parts_ns[part], 0.0)
        duration = np.maximum(duration - taken, 0.0)
    return duration


def _shared(graph: RecordedGraph, duration_ns: Float64, own_level: frozenset[int]) -> Float64:
    """All ranks have the mean of their kernels' work, launch by launch where they can be matched,
    else as a whole. Ranks of `own_level` take as much longer or shorter as they do in sum."""
    changed: Float64 = duration_ns.copy()
    for by_rank in _by_name(graph, ("kernel",), set(graph.rank[graph.rank >= 0].tolist())):
        like = [nodes for rank, nodes in by_rank.items() if rank not in own_level]
        like = like or list(by_rank.values())
        mean = float(np.mean([duration_ns[nodes].sum() for nodes in like]))
        is_matched = len({len(nodes) for nodes in by_rank.values()}) == 1
        each = np.mean([duration_ns[nodes] for nodes in like], axis=0) if is_matched else None
        for rank, nodes in by_rank.items():
            sum_ns = float(duration_ns[nodes].sum())
            wanted = sum_ns if rank in own_level else mean
            if each is None:
                changed[nodes] *= wanted / max(sum_ns, 1.0)
            else:
                changed[nodes] = each * (wanted / max(mean, 1.0))
    return changed


def _by_name(
    graph: RecordedGraph, roles: Sequence[str], ranks: set[int]
) -> Iterator[dict[int, Int64]]:
    """For each role and name: the nodes of each of these ranks, in the order of time."""
    own = np.isin(graph.rank, list(ranks))
    for role in roles:
        rows = np.flatnonzero(own & (graph.role == Role[role.upper()]))
        order = rows[np.lexsort((rows, graph.rank[rows], graph.name[rows]))]
        names = np.flatnonzero(np.diff(graph.name[order])) + 1
        for nodes in np.split(order, names):
            cuts = np.flatnonzero(np.diff(graph.rank[nodes])) + 1
            yield {int(graph.rank[part[0]]): part for part in np.split(nodes, cuts) if len(part)}


def _on_ranks(graph: RecordedGraph, remedy: Remedy) -> Bool:
    if not remedy.ranks:
        return np.ones(len(graph.rank), np.bool_)
    chosen: Bool = np.isin(graph.rank, remedy.ranks)
    return chosen
