"""The machines: agents, nodes, GPUs and what their counters say."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pilotlight.store.queries.reader import ONE_THREAD, PERIODS_NS, Reader, Span, bounded
from pilotlight.store.queries.representatives import representatives

SHORT_NS = 3_600_000_000_000
_IDLE_NS = 150_000_000_000
"""Agents without a job send once a minute."""
RECENT_NS = 600_000_000_000


@dataclass(frozen=True)
class AgentRow:
    agent: str
    cluster: str
    node: str
    version: str
    state: str
    seen_ns: int
    offset_ns: int
    uncertainty_ns: int
    cpu_ratio: float
    rss_bytes: int
    jobs: tuple[str, ...]
    gpus: tuple[str, ...]
    spool_bytes: int
    batches_lost: int
    rows_lost: int
    records_dropped: int


@dataclass(frozen=True)
class DoctorRow:
    """A check of `pilotlight doctor` on an agent's node; `state` is ok, limited or broken."""

    agent: str
    node: str
    what: str
    state: str
    detail: str
    fix: str
    seen_ns: int


@dataclass(frozen=True)
class Machine:
    """What its agents say of a node."""

    cluster: str
    node: str
    state: str
    gpus: int
    jobs: tuple[str, ...]
    seen_ns: int


@dataclass(frozen=True)
class NodeRow:
    """A machine: what runs on it now, and the mean of its GPUs' counters as last seen."""

    cluster: str
    node: str
    state: str
    gpus: int
    jobs: tuple[str, ...]
    ranks: int
    seen_ns: int
    counters: dict[str, float]
    open_findings: int


@dataclass(frozen=True)
class GpuRow:
    """A GPU and its counters as they were last seen."""

    node: str
    gpu: int
    counters: dict[str, float]


@dataclass(frozen=True)
class GpuPlace:
    node: str
    gpu: int
    rank: int


@dataclass(frozen=True)
class CounterName:
    name: str
    nodes: int
    gpus: int


@dataclass(frozen=True)
class CounterSeries:
    node: str
    gpu: int
    rank: int
    name: str
    period_ns: int
    time_ns: list[int]
    mean: list[float]
    min: list[float]
    max: list[float]


def _state(reader: Reader, seen_ns: int, jobs: Sequence[str]) -> str:
    patience_ns = reader.patience_ns if jobs else max(_IDLE_NS, reader.patience_ns)
    return "up" if reader.now_ns - seen_ns < patience_ns else "silent"


def agents(reader: Reader, limit: int = 2000) -> list[AgentRow]:
    found = reader.select(
        "SELECT agent, cluster, node, version, seen_ns, offset_ns, uncertainty_ns, cpu_ratio, "
        "rss_bytes, jobs, gpus, spool_bytes, batches_lost, rows_lost, records_dropped "
        "FROM agents FINAL WHERE tenant = {tenant:String} "
        "ORDER BY node, agent LIMIT {limit:UInt32}",
        limit=limit,
    )
    return [
        AgentRow(
            agent=row[0],
            cluster=row[1],
            node=row[2],
            version=row[3],
            state=_state(reader, int(row[4]), row[9]),
            seen_ns=int(row[4]),
            offset_ns=int(row[5]),
            uncertainty_ns=int(row[6]),
            cpu_ratio=float(row[7]),
            rss_bytes=int(row[8]),
            jobs=tuple(row[9]),
            gpus=tuple(row[10]),
            spool_bytes=int(row[11]),
            batches_lost=int(row[12]),
            rows_lost=int(row[13]),
            records_dropped=int(row[14]),
        )
        for row in found
    ]


def doctor(reader: Reader, limit: int = 20_000) -> list[DoctorRow]:
    """What the latest look of every agent at its node found, the worst first."""
    found = reader.select(
        "SELECT agent, node, what, state, detail, fix, seen_ns FROM doctor FINAL "
        "WHERE tenant = {tenant:String} AND (agent, seen_ns) IN (SELECT agent, max(seen_ns) "
        "FROM doctor WHERE tenant = {tenant:String} GROUP BY agent) "
        "ORDER BY indexOf(['broken', 'limited', 'ok'], state), node, what LIMIT {limit:UInt32}",
        limit=limit,
    )
    return [
        DoctorRow(agent, node, what, state, detail, fix, int(seen_ns))
        for agent, node, what, state, detail, fix, seen_ns in found
    ]


def nodes(reader: Reader, span: Span) -> list[NodeRow]:
    """With what their GPUs were last seen to do."""
    values: dict[tuple[str, str], list[float]] = {}
    for gpu in gpus_now(reader, span.to_ns):
        for name, value in gpu.counters.items():
            values.setdefault((gpu.node, name), []).append(value)
    counters: dict[str, dict[str, float]] = {}
    for (node, name), of_gpus in values.items():
        counters.setdefault(node, {})[name] = sum(of_gpus) / len(of_gpus)
    ranks = {
        row[0]: int(row[1])
        for row in reader.select(
            "SELECT node, uniqExact(job, rank) FROM ranks FINAL WHERE tenant = {tenant:String} "
            "AND role IN ('rank', 'main') AND ended_ns = 0 AND updated_ns >= {since_ns:Int64} "
            "GROUP BY node",
            since_ns=reader.now_ns - reader.patience_ns,
        )
    }
    findings = {
        row[0]: int(row[1])
        for row in reader.select(
            "SELECT arrayJoin(nodes) AS node, count() FROM findings FINAL "
            "WHERE tenant = {tenant:String} AND state = 'open' GROUP BY node"
        )
    }
    return [
        NodeRow(
            cluster=machine.cluster,
            node=machine.node,
            state=machine.state,
            gpus=machine.gpus,
            jobs=machine.jobs,
            ranks=ranks.get(machine.node, 0),
            seen_ns=machine.seen_ns,
            counters=counters.get(machine.node, {}),
            open_findings=findings.get(machine.node, 0),
        )
        for machine in machines(reader)
    ]


def machines(reader: Reader) -> list[Machine]:
    """By node; of several agents on one the first by name says its cluster."""
    found = reader.select(
        "SELECT node, argMin(cluster, agent), max(seen_ns), max(length(gpus)), "
        "groupUniqArrayArray(jobs) FROM agents FINAL WHERE tenant = {tenant:String} "
        f"GROUP BY node ORDER BY node LIMIT 20000 {ONE_THREAD}"
    )
    return [
        Machine(
            cluster=cluster,
            node=node,
            state=_state(reader, int(seen_ns), jobs),
            gpus=int(gpus),
            jobs=tuple(sorted(jobs)),
            seen_ns=int(seen_ns),
        )
        for node, cluster, seen_ns, gpus, jobs in found
    ]


def gpus_now(reader: Reader, at_ns: int, names: Sequence[str] = ()) -> list[GpuRow]:
    """The newest 10 s of every GPU's counters, of all or of those named, unless they are older than
    ten minutes."""
    found: dict[tuple[str, int], dict[str, float]] = {}
    for node, gpu, name, mean in reader.select(
        "SELECT node, gpu, name, mean FROM counters_latest FINAL WHERE tenant = {tenant:String} "
        "AND gpu >= 0 AND time_ns >= {from_ns:Int64} AND time_ns < {to_ns:Int64} "
        + ("AND name IN {names:Array(String)} " if names else "")
        + "ORDER BY node, gpu, time_ns",
        names=list(names),
        from_ns=min(at_ns, reader.now_ns) - RECENT_NS,
        to_ns=at_ns,
    ):
        found.setdefault((node, int(gpu)), {})[name] = float(mean)
    return [GpuRow(node, gpu, counters) for (node, gpu), counters in found.items()]


def counter_names(reader: Reader, span: Span, job: str = "") -> list[CounterName]:
    found = reader.select(
        "SELECT name, uniqExact(node), uniqExact(node, gpu) FROM counters_5m "
        f"WHERE tenant = {{tenant:String}} AND {bounded('counters_5m')} "
        "AND ({job:String} = '' OR job = {job:String}) GROUP BY name ORDER BY name",
        job=job,
        from_ns=span.from_ns // PERIODS_NS["5m"] * PERIODS_NS["5m"],
        to_ns=span.to_ns,
    )
    return [CounterName(name, int(nodes), int(gpus)) for name, nodes, gpus in found]


def counter_means(
    reader: Reader, names: Sequence[str], span: Span, job: str
) -> dict[GpuPlace, dict[str, float]]:
    """By GPU and rank the mean of each counter over the span."""
    is_short = span.length_ns <= SHORT_NS and reader.keeps("counters", span)
    width_ns = PERIODS_NS["10s" if is_short else "5m"]
    table = "counters" if is_short else "counters_5m"
    found: dict[GpuPlace, dict[str, float]] = {}
    for node, gpu, rank, name, mean in reader.select(
        "SELECT node, gpu, rank, name, sum(c.sum) / greatest(sum(c.count), 1) "
        f"FROM {table} AS c "
        "WHERE tenant = {tenant:String} AND name IN {names:Array(String)} AND job = {job:String} "
        f"AND rank >= 0 AND {bounded(table)} "
        "GROUP BY node, gpu, rank, name",
        names=list(names),
        job=job,
        from_ns=span.from_ns // width_ns * width_ns,
        to_ns=span.to_ns,
    ):
        place = GpuPlace(node, int(gpu), int(rank))
        found.setdefault(place, {})[name] = float(mean)
    return found


def counters(
    reader: Reader,
    name: str,
    span: Span,
    job: str = "",
    node: str = "",
    points: int = 600,
    limit: int = 200,
    rank: int | None = None,
) -> list[CounterSeries]:
    """A series for each GPU or rank that has this counter; of more than `limit` those that are
    least like the others, some that stand for the rest, and `rank`."""
    is_fine = span.length_ns / PERIODS_NS["10s"] <= points and reader.keeps("counters", span)
    table, width_ns = ("counters", PERIODS_NS["10s"]) if is_fine else ("counters_5m", 0)
    if not is_fine:
        width_ns = PERIODS_NS["5m"]
        while span.length_ns / width_ns > points:
            width_ns *= 2
    wanted = (
        "tenant = {tenant:String} AND name = {name:String} "
        f"AND {bounded(table, 'c.time_ns')} "
        "AND ({job:String} = '' OR job = {job:String}) "
        "AND ({node:String} = '' OR node = {node:String})"
    )
    asked: dict[str, object] = {"name": name, "job": job, "node": node}
    asked |= {"from_ns": span.from_ns // width_ns * width_ns, "to_ns": span.to_ns}
    # The places first: of a thousand GPUs most are left out, and need no course.
    places = reader.select(
        "SELECT node, gpu, rank, sum(c.sum) / greatest(sum(c.count), 1) "
        f"FROM {table} AS c WHERE {wanted} GROUP BY node, gpu, rank ORDER BY node, gpu, rank",
        **asked,
    )
    if not places:
        return []
    named = [i for i, place in enumerate(places) if int(place[2]) == rank]
    chosen = [places[i] for i in representatives([float(p[3]) for p in places], limit, named)]
    found = reader.select(
        f"SELECT node, gpu, rank, groupArray(t), groupArray(m), groupArray(lo), groupArray(hi) "
        f"FROM (SELECT node, gpu, rank, intDiv(c.time_ns, {width_ns}) * {width_ns} AS t, "
        "sum(c.sum) / greatest(sum(c.count), 1) AS m, min(c.min) AS lo, max(c.max) AS hi "
        f"FROM {table} AS c WHERE {wanted} AND node IN {{nodes:Array(String)}} "
        "AND concat(node, ' ', toString(gpu), ' ', toString(rank)) IN {chosen:Array(String)} "
        "GROUP BY node, gpu, rank, t ORDER BY node, gpu, rank, t) "
        f"GROUP BY node, gpu, rank ORDER BY node, gpu, rank {ONE_THREAD}",
        **asked,
        # By the node, too: rows lie by it.
        nodes=sorted({str(place[0]) for place in chosen}),
        chosen=[f"{node} {gpu} {place_rank}" for node, gpu, place_rank, _ in chosen],
    )
    return [
        CounterSeries(
            node=row[0],
            gpu=int(row[1]),
            rank=int(row[2]),
            name=name,
            period_ns=width_ns,
            time_ns=[int(value) for value in row[3]],
            mean=[float(value) for value in row[4]],
            min=[float(value) for value in row[5]],
            max=[float(value) for value in row[6]],
        )
        for row in found
    ]
