"""What the collector remembers of the running jobs: what the online rules look at."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from pilotlight.collector.watch.rank import COLUMNS, RecentRank
from pilotlight.collector.watch.shared_steps import A_WHILE_NS, lasts_ns, shared, spread
from pilotlight.insights.online import CollectiveSum, RankWindow
from pilotlight.insights.online.ranks import MIN_STEPS_APART
from pilotlight.recording.columns import Array
from pilotlight.ship.wire import gpu_number
from pilotlight.store.batch import AgentFacts, Batch, Cost, DeviceEvent, Place, corrected

MOST_RANKS = 20_000
_SHORT_STEPS = 20
_MOST_EVENTS = 64
_MOST_GROUPS = 64
_RULE_COUNTERS = {
    "gpu.sm_clock_mhz": "sm_clock_mhz",
    "gpu.temperature_c": "temperature_c",
    "gpu.throttle_ratio": "throttle_ratio",
}
_NO_COST = Cost()
_PAUSE_NS = 30_000_000_000
MISSED_BATCHES = 3


@dataclass(frozen=True)
class RecentAgent:
    """What an agent said of itself in its last batch."""

    tenant: str
    agent: str
    node: str
    facts: AgentFacts
    offset_ns: int
    heard_ns: int


@dataclass(frozen=True)
class NodeEvent:
    """Something that happened to a device of a node; `is_own`: the job has it."""

    node: str
    event: DeviceEvent
    is_own: bool


@dataclass
class RecentJob:
    """The newest attempt of a job; `states` are what its nodes say."""

    tenant: str
    job: str
    attempt: int = 0
    command: str = ""
    world_size: int = 0
    started_ns: int = 0
    ranks: dict[int, RecentRank] = field(default_factory=dict)
    states: dict[str, str] = field(default_factory=dict)
    heard_ns: int = 0
    resumed_ns: int = 0  # when somebody was heard again after nobody was
    told_ns: int = 0  # until when its agents have told: a backlog is no hang
    has_news: bool = False
    # By node the GPUs that its processes have; -1: one of them has none, or nobody knows which.
    gpus: dict[str, frozenset[int]] = field(default_factory=dict)
    # By node the control groups that its processes have had.
    groups: dict[str, set[str]] = field(default_factory=dict)
    events: list[NodeEvent] = field(default_factory=list)

    @property
    def is_over(self) -> bool:
        return bool(self.states) and "running" not in self.states.values()

    def windows(self) -> list[RankWindow]:
        """The latest steps of each rank."""
        tables, _ = self._compared()
        return [self.ranks[rank].window(rank, rows) for rank, rows in tables.items()]

    def short_windows(self) -> list[RankWindow]:
        """As few steps that all have as a rule can be sure of: what has just begun is not yet in
        most of many."""
        tables, common = self._compared()
        steps = spread(tables, common, _SHORT_STEPS)
        return [
            self.ranks[rank].window(rank, rows[np.isin(rows[:, 0], steps)])
            for rank, rows in tables.items()
        ]

    def _compared(self) -> tuple[dict[int, Array], Array]:
        """Steps by rank, and those that all have: the latest, or some of a longer time, where these
        are over in a moment or nodes that tell at different times have too few in common."""
        ordered = sorted(self.ranks.items())
        dense = {rank: one.rows for rank, one in ordered}
        common = shared(dense)
        if len(common) >= _SHORT_STEPS and lasts_ns(dense, common) >= A_WHILE_NS:
            return dense, common
        thin = {rank: one.thin for rank, one in ordered}
        of_thin = shared(thin)
        is_enough = len(of_thin) >= min(_SHORT_STEPS, len(common))
        return (thin, of_thin) if is_enough else (dense, common)

    def told_windows(self, is_short: bool) -> list[RankWindow] | None:
        """The steps in which ranks can be compared; None where these are all."""
        if not any(one.is_told_now_and_then for one in self.ranks.values()):
            return None
        ranks = {rank: one for rank, one in sorted(self.ranks.items()) if len(one.told)}
        # Each rank tells some that others do not.
        tables = {rank: one.told for rank, one in ranks.items()}
        most = MIN_STEPS_APART if is_short else _SHORT_STEPS
        steps = spread(tables, shared(tables), most)
        return [one.told_window(rank, steps) for rank, one in ranks.items()]

    def median_step_ns(self) -> float:
        lengths = [one.rows[:, 2] for one in self.ranks.values() if len(one.rows)]
        return float(np.median(np.concatenate(lengths))) if lengths else 0.0

    def slow_ranks(self, factor: float) -> list[int]:
        """Ranks with a new step of that many times the median of all."""
        usual_ns = self.median_step_ns()
        return [
            rank
            for rank, one in self.ranks.items()
            if len(one.rows) >= _SHORT_STEPS and one.longest_new_ns > factor * usual_ns > 0
        ]

    def looked(self) -> None:
        """What has come so far is no news any more."""
        self.has_news = False
        for one in self.ranks.values():
            one.longest_new_ns = 0


def take_in(jobs: dict[tuple[str, str], RecentJob], batch: Batch) -> set[tuple[str, str]]:
    """Adds what a batch says; returns the jobs that have news."""
    header = batch.header
    touched: set[tuple[str, str]] = set()
    for facts in header.jobs:
        key = (batch.tenant, facts.job)
        job = jobs.setdefault(key, RecentJob(batch.tenant, facts.job))
        if facts.attempt > job.attempt:
            job = jobs[key] = RecentJob(batch.tenant, facts.job, facts.attempt)
        if facts.attempt < job.attempt:
            continue
        job.command, job.world_size = facts.command, facts.world_size
        job.started_ns = job.started_ns or facts.started_ns + batch.clock.offset_ns
        job.states[header.node] = facts.state
        pause_ns = max(_PAUSE_NS, MISSED_BATCHES * _every_ns(batch))
        if job.heard_ns and batch.received_ns - job.heard_ns > pause_ns:
            job.resumed_ns = batch.received_ns
        job.heard_ns = max(job.heard_ns, batch.received_ns)
        told_ns = header.made_ns + batch.clock.offset_ns
        job.told_ns = max(job.told_ns, min(told_ns, batch.received_ns))
        touched.add(key)
    owners: dict[int, RecentRank] = {}
    gpus: dict[tuple[str, str], set[int]] = {}
    for index, place in enumerate(header.places):
        found = jobs.get((batch.tenant, place.job))
        if found is None or place.attempt != found.attempt:
            continue
        gpus.setdefault((batch.tenant, place.job), set()).add(place.gpu)
        groups = found.groups.setdefault(header.node, set())
        if place.group and len(groups) < _MOST_GROUPS:
            groups.add(place.group)
        if place.rank < 0:
            continue
        if place.role not in ("rank", "main") or len(found.ranks) >= MOST_RANKS:
            continue
        if place.role == "main" and any(one.role == "rank" for one in found.ranks.values()):
            continue
        owners[index] = _rank(found, place, batch)
    _add_steps(batch, owners)
    _add_counters(batch, owners)
    _add_collectives(batch, owners)
    for key in touched:
        _forget_launchers(jobs[key])
    for key, numbers in gpus.items():
        jobs[key].gpus[header.node] = frozenset(numbers)
    here = [job for key, job in jobs.items() if key[0] == batch.tenant and header.node in job.gpus]
    for event in header.events:
        _happened(here, header.node, event)
    for key in touched:
        jobs[key].has_news = True
    return touched


def _every_ns(batch: Batch) -> int:
    return int(1e9 * batch.header.facts.batch_s)


def _forget_launchers(job: RecentJob) -> None:
    """Before its ranks came, a launcher was told as the only rank of its job."""
    if any(one.role == "rank" for one in job.ranks.values()):
        job.ranks = {rank: one for rank, one in job.ranks.items() if one.role == "rank"}


def _happened(here: Sequence[RecentJob], node: str, event: DeviceEvent) -> None:
    """What happens to a GPU or a control group concerns the jobs that have it, or may have it where
    nobody knows who does; the other jobs of its node hear of it. What is neither belongs to all."""
    number = gpu_number(event.device)
    if number >= 0:
        having = [job for job in here if number in job.gpus[node]]
    else:
        having = [job for job in here if event.device in job.groups.get(node, ())]
    if not having:
        having = [job for job in here if number < 0 or job.gpus[node] == {-1}]
    for job in here:
        if len(job.events) < _MOST_EVENTS:
            job.events.append(NodeEvent(node, event, is_own=job in having))


def _rank(job: RecentJob, place: Place, batch: Batch) -> RecentRank:
    one = job.ranks.get(place.rank)
    if one is None or one.role != place.role:
        one = job.ranks[place.rank] = RecentRank(batch.header.node, batch.header.agent, place.role)
    one.node, one.agent, one.device = batch.header.node, batch.header.agent, place.gpu_name
    one.gpu = place.gpu
    one.entered, one.finished = dict(place.entered), dict(place.finished)
    one.operations, one.stack = dict(place.operations), place.stack
    one.ended_ns = place.ended_ns
    if place.cost != _NO_COST:
        one.cost = place.cost
    one.heard_ns, one.every_ns = batch.received_ns, _every_ns(batch)
    if place.last_step_ns:
        one.last_step_ns = max(one.last_step_ns, place.last_step_ns + batch.clock.offset_ns)
    return one


def _add_steps(batch: Batch, owners: dict[int, RecentRank]) -> None:
    steps = batch.tables.get("steps")
    if steps is None:
        return
    shifted, possible = corrected(batch, steps["start_ns"])
    columns = {**steps.arrays, "start_ns": shifted}
    table = np.stack([columns[name].astype(np.int64) for name in COLUMNS], axis=1)[possible]
    place = steps["place"][possible]
    for index in np.unique(place):
        one = owners.get(int(index))
        if one is not None:
            one.add(table[place == index])


def _add_counters(batch: Batch, owners: dict[int, RecentRank]) -> None:
    counters = batch.tables.get("counters")
    if counters is None:
        return
    means = counters["sum"] / np.maximum(counters["count"], 1)
    for index, name, mean in zip(
        counters["place"].tolist(), counters.texts["name"], means.tolist(), strict=True
    ):
        wanted = _RULE_COUNTERS.get(name)
        if wanted is not None and index in owners:
            owners[index].counters = {**owners[index].counters, wanted: mean}


def _add_collectives(batch: Batch, owners: dict[int, RecentRank]) -> None:
    table = batch.tables.get("collectives")
    if table is None:
        return
    found: dict[int, list[CollectiveSum]] = {}
    for row, index in enumerate(table["place"].tolist()):
        if index in owners:
            wait_ns = int(table["wait_ns"][row])
            found.setdefault(index, []).append(
                CollectiveSum(
                    operation=table.texts["operation"][row],
                    group=table.texts["group"][row],
                    size=int(table["size"][row]),
                    count=int(table["count"][row]),
                    bytes=int(table["bytes"][row]),
                    total_ns=float(table["total_ns"][row]),
                    wait_ns=float(wait_ns) if wait_ns else None,
                )
            )
    for index, sums in found.items():
        owners[index].collectives = tuple(sums)
