"""Who holds up a job that hangs, from the flight-recorder dumps of its ranks.

A collective ends when all ranks of its group have entered it. So a rank that has not entered what
its peers wait in holds them up, unless it waits itself; and a rank that has not finished what its
peers have finished, which took its own part, has a device that answers no more.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from pilotlight.trace.flight_recorder import Dump, Group, Operation

ROOTED = ("broadcast", "nccl:reduce", "nccl:gather", "nccl:scatter", "send", "recv")
SAME_SIZE = ("all_reduce", "_all_gather_base", "_reduce_scatter_base", "allreduce")

NOT_ENTERED = "not entered"
DEVICE = "device stuck"
NO_DUMP = "no dump"
UNREADABLE = "dump unreadable"
MISMATCH = "mismatch"
CYCLE = "waits in a circle"
NOT_STARTED = "not started"

FIXES = {
    NOT_ENTERED: "look at its host stack (deadlock, GIL held, slow input, exception); restart it",
    DEVICE: "look for XID errors and ECC counts of its GPU; drain the node",
    NO_DUMP: "it died or could not dump: look at its log and at the node",
    UNREADABLE: "nothing is known of it: look at its log, and dump again",
    MISMATCH: "make all ranks of the group call the same collective with the same shape",
    CYCLE: "let all ranks use the groups in the same order",
    NOT_STARTED: "an earlier kernel occupies its stream: look at what ran before on this rank",
}

NO_HANG = "no rank waits in a collective: no hang to see in these dumps"
NO_COLLECTIVE = (
    "no collective is in these dumps, and gloo records no send and no receive: whether ranks hang"
    " is seen by their stacks (pilotlight dump JOB)"
)


@dataclass(frozen=True)
class Culprit:
    """A rank at fault, and the collective that shows it."""

    rank: int
    cause: str
    group: str
    sequence: int
    operation: str
    evidence: str
    fix: str


@dataclass(frozen=True)
class HangReport:
    culprits: tuple[Culprit, ...]
    waiting: tuple[int, ...]
    conclusion: str


@dataclass
class _Scene:
    """What the dumps say together, by group."""

    dumps: dict[int, Dump]
    states: dict[str, dict[int, Group]] = field(default_factory=lambda: defaultdict(dict))
    ranks: dict[str, tuple[int, ...]] = field(default_factory=dict)
    p2p_groups: set[str] = field(default_factory=set)
    operations: dict[tuple[int, str, int], Operation] = field(default_factory=dict)

    def title(self, group: str) -> str:
        text = next((g.description for g in self.states[group].values() if g.description), "")
        return f"{group} ({text})" if text else group

    def operation(self, rank: int, group: str, sequence: int) -> str:
        found = self.operations.get((rank, group, sequence))
        if found is None:
            others = (self.operations.get((r, group, sequence)) for r in self.ranks[group])
            found = next((operation for operation in others if operation), None)
        return found.name if found else "collective"

    def is_waiting(self, rank: int) -> bool:
        dump = self.dumps[rank]
        behind = any(group.completed < group.enqueued for group in dump.groups.values())
        return behind or bool(dump.pending)


def find_culprits(dumps: Sequence[Dump], unreadable: Sequence[int] = ()) -> HangReport:
    """Names the ranks at fault; the ranks that only wait for them are not among them. A rank whose
    dump is `unreadable` was able to write one: it is named if nobody else is."""
    scene = _scene(dumps)
    waiting = tuple(dump.rank for dump in dumps if scene.is_waiting(dump.rank))
    if not waiting:
        has_any = any(dump.groups for dump in dumps)
        return HangReport((), (), NO_HANG if has_any else NO_COLLECTIVE)
    edges = _edges(scene)
    found = {c.rank: c for c in (*_stuck_devices(scene), *_mismatches(scene))}
    for culprit in _absentees(scene, edges):
        found.setdefault(culprit.rank, culprit)
    known = {rank: culprit for rank, culprit in found.items() if rank not in unreadable}
    found = known or {
        rank: replace(culprit, cause=UNREADABLE, fix=FIXES[UNREADABLE])
        for rank, culprit in found.items()
    }
    if not found:
        ends = _unstarted(scene) or _ends_of_waiting(scene, edges + _device_edges(scene))
        found = {c.rank: c for c in ends}
    culprits = tuple(found[rank] for rank in sorted(found))
    victims = tuple(rank for rank in waiting if rank not in found)
    if culprits:
        names = ", ".join(str(culprit.rank) for culprit in culprits)
        noun = "rank" if len(culprits) == 1 else "ranks"
        text = f"{noun} {names} at fault; {len(victims)} wait for it"
        untold = [rank for rank in unreadable if rank not in found]
        if untold:
            text += f"; nothing is known of {_list(untold)}: dump unreadable"
        return HangReport(culprits, victims, text)
    return HangReport((), victims, _transport(scene))


def went_on(report: HangReport, before: Sequence[Dump], after: Sequence[Dump]) -> bool:
    """Whether all whom the report of `before` names have done more collectives by `after`: they
    only looked as if they waited, because a running job's dumps are of different moments."""
    named = {*report.waiting, *(culprit.rank for culprit in report.culprits)}
    done = {dump.rank: _done(dump) for dump in before}
    done_after = {dump.rank: _done(dump) for dump in after}
    return all(rank in done and done_after.get(rank, -1) > done[rank] for rank in named)


def _done(dump: Dump) -> int:
    return sum(group.enqueued + group.completed for group in dump.groups.values())


def _scene(dumps: Sequence[Dump]) -> _Scene:
    scene = _Scene({dump.rank: dump for dump in dumps})
    for dump in dumps:
        for group in dump.groups.values():
            scene.states[group.name][dump.rank] = group
            scene.ranks[group.name] = group.ranks or scene.ranks.get(group.name, ())
        for operation in dump.pending:
            scene.ranks.setdefault(operation.group, ())
            if operation.is_p2p:
                scene.p2p_groups.add(operation.group)
            else:
                key = (dump.rank, operation.group, operation.sequence)
                scene.operations.setdefault(key, operation)
    for name, states in scene.states.items():
        # Without a list of members those that use a group are its members.
        scene.ranks[name] = scene.ranks[name] or tuple(sorted(states))
    return scene


@dataclass(frozen=True)
class _Edge:
    """`waiter` cannot go on before `late` has entered this operation."""

    waiter: int
    late: int
    group: str
    sequence: int
    operation: str


def _edges(scene: _Scene) -> list[_Edge]:
    edges = []
    for name, states in scene.states.items():
        if name in scene.p2p_groups:
            continue
        for rank, state in states.items():
            if state.completed >= state.enqueued:
                continue
            sequence = state.completed + 1
            operation = scene.operation(rank, name, sequence)
            for other in scene.ranks[name]:
                peer = states.get(other)
                if peer is None and other in scene.dumps:
                    continue
                if peer is None or peer.enqueued < sequence:
                    edges.append(_Edge(rank, other, name, sequence, operation))
    return edges + _p2p_edges(scene)


def _device_edges(scene: _Scene) -> list[_Edge]:
    """The device of a rank works in the order of its calls: what it has entered but is queued
    behind something else holds up the peers whose devices have come that far."""
    first = {rank: dump.pending[0] for rank, dump in scene.dumps.items() if dump.pending}
    entered = {
        (rank, operation.group, operation.sequence, operation.is_p2p)
        for rank, dump in scene.dumps.items()
        for operation in dump.pending
    }
    edges = []
    for rank, operation in first.items():
        if operation.is_p2p:
            continue
        key = (operation.group, operation.sequence, False)
        for other in scene.ranks[operation.group]:
            ahead = first.get(other)
            if other == rank or ahead is None or (other, *key) not in entered:
                continue
            if (ahead.group, ahead.sequence, ahead.is_p2p) != key:
                edges.append(_Edge(rank, other, *key[:2], operation.name))
    return edges


def _p2p_edges(scene: _Scene) -> list[_Edge]:
    """A send or receive waits for a peer that has no counterpart pending."""
    pairs: dict[tuple[str, int, int, bool], Operation] = {}
    for dump in scene.dumps.values():
        for operation in dump.pending:
            peer = _peer(operation, scene.ranks.get(operation.group, ()))
            if operation.is_p2p and peer is not None:
                is_send = "send" in operation.name
                pairs.setdefault((operation.group, dump.rank, peer, is_send), operation)
    return [
        _Edge(rank, peer, group, operation.sequence, operation.name)
        for (group, rank, peer, is_send), operation in pairs.items()
        if (group, peer, rank, not is_send) not in pairs
    ]


def _peer(operation: Operation, ranks: tuple[int, ...]) -> int | None:
    """`nccl:send 0->3` counts within the group."""
    for arrow in ("->", "<-"):
        _, found, text = operation.name.rpartition(arrow)
        if found and text.strip().isdigit() and int(text) < len(ranks):
            return ranks[int(text)]
    return None


def _stuck_devices(scene: _Scene) -> list[Culprit]:
    found = []
    for name, states in scene.states.items():
        if name in scene.p2p_groups or len(states) < 2:
            continue
        furthest = max(states, key=lambda rank: states[rank].completed)
        for rank, state in states.items():
            sequence = state.completed + 1
            if state.enqueued < sequence or states[furthest].completed < sequence:
                continue
            operation = scene.operation(rank, name, sequence)
            if any(word in operation for word in ROOTED):
                continue
            text = (
                f"finished {state.completed} of group {scene.title(name)},"
                f" rank {furthest} finished {states[furthest].completed}, which needs all ranks"
            )
            found.append(_culprit(rank, DEVICE, name, sequence, operation, text))
    return _one_each(found)


def _absentees(scene: _Scene, edges: list[_Edge]) -> list[Culprit]:
    """Ranks that others wait for and that wait for nobody, or that left no dump."""
    waiters: dict[tuple[int, str], set[int]] = defaultdict(set)
    for edge in edges:
        waiters[edge.late, edge.group].add(edge.waiter)
    found = []
    for edge in edges:
        who = _list(sorted(waiters[edge.late, edge.group]))
        what = f"{edge.operation} {edge.sequence}"
        text = f"ranks {who} wait in {what} of group {scene.title(edge.group)}"
        place = (edge.group, edge.sequence, edge.operation)
        if edge.late not in scene.dumps:
            found.append(_culprit(edge.late, NO_DUMP, *place, text))
        elif not scene.is_waiting(edge.late):
            last = scene.dumps[edge.late].groups.get(edge.group)
            entered = f", it entered only {last.enqueued}" if last else ""
            found.append(_culprit(edge.late, NOT_ENTERED, *place, text + entered))
    return _one_each(found)


def _mismatches(scene: _Scene) -> list[Culprit]:
    calls: dict[tuple[str, int], dict[int, tuple[str, str]]] = defaultdict(dict)
    for (rank, group, sequence), operation in scene.operations.items():
        sizes = operation.sizes if any(w in operation.name for w in SAME_SIZE) else ""
        calls[group, sequence][rank] = (operation.name, sizes)
    found = []
    for (group, sequence), by_rank in calls.items():
        counts = Counter(by_rank.values())
        if len(counts) < 2:
            continue
        (usual, usual_count), (_, second_count) = counts.most_common(2)
        for rank, call in by_rank.items():
            if call != usual or usual_count == second_count:
                text = f"calls {' '.join(call).strip()}, others {' '.join(usual).strip()}"
                found.append(_culprit(rank, MISMATCH, group, sequence, call[0], text))
    return _one_each(found)


def _ends_of_waiting(scene: _Scene, edges: list[_Edge]) -> list[Culprit]:
    """Where following who waits for whom ends: at a rank, or in a circle."""
    targets: dict[int, set[int]] = defaultdict(set)
    for edge in edges:
        targets[edge.waiter].add(edge.late)
    reach = {rank: _reachable(rank, targets) for rank in {edge.late for edge in edges}}
    found = []
    for edge in edges:
        beyond = reach[edge.late]
        text = f"rank {edge.waiter} waits for it in group {scene.title(edge.group)}"
        place = (edge.group, edge.sequence, edge.operation)
        if not beyond:
            found.append(_culprit(edge.late, NOT_ENTERED, *place, text))
        elif all(edge.late in reach.get(rank, ()) for rank in beyond):
            found.append(_culprit(edge.late, CYCLE, *place, text))
    return _one_each(found)


def _reachable(start: int, targets: dict[int, set[int]]) -> set[int]:
    seen: set[int] = set()
    pending = list(targets.get(start, ()))
    while pending:
        rank = pending.pop()
        if rank not in seen:
            seen.add(rank)
            pending += targets.get(rank, ())
    return seen


def _unstarted(scene: _Scene) -> list[Culprit]:
    """All entered, but on some ranks the device has not begun what runs on the others."""
    calls: dict[tuple[str, int], dict[int, Operation]] = defaultdict(dict)
    for (rank, group, sequence), operation in scene.operations.items():
        calls[group, sequence][rank] = operation
    found = []
    for (group, sequence), by_rank in calls.items():
        late = [rank for rank, operation in by_rank.items() if operation.state == "scheduled"]
        if 0 < len(late) < len(by_rank):
            text = f"runs on {len(by_rank) - len(late)} other ranks of {scene.title(group)}"
            for rank in late:
                name = by_rank[rank].name
                found.append(_culprit(rank, NOT_STARTED, group, sequence, name, text))
    return _one_each(found)


def _transport(scene: _Scene) -> str:
    groups = sorted({group for _, group, _ in scene.operations} | scene.p2p_groups)
    names = _list([scene.title(group) for group in groups])
    return f"all ranks entered, none finished: the network between them (groups {names})"


def _culprit(
    rank: int, cause: str, group: str, sequence: int, operation: str, evidence: str
) -> Culprit:
    return Culprit(rank, cause, group, sequence, operation, evidence, FIXES[cause])


def _one_each(found: list[Culprit]) -> list[Culprit]:
    return list({culprit.rank: culprit for culprit in reversed(found)}.values())


def _list(items: Sequence[object]) -> str:
    shown = ", ".join(str(item) for item in items[:8])
    return f"{shown}, ..." if len(items) > 8 else shown
