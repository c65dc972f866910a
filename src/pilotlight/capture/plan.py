"""Whom to ask, and from which step on: pure functions."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace

RANK, MAIN, LAUNCHER, WORKER = "rank", "main", "launcher", "worker"

# Between the poll that hands out a request and the first step of the trace: one to warm up in,
# one that is under way.
STEPS_BEFORE = 2
# How much faster than was seen steps may become until then.
_FASTER = 1.25
_SHORTEST_STEP_NS = 10_000
# Of one trace, where a step has very many.
MOST_CALLS = 10_000
# Kineto's numbers are of 32 bits.
LAST_STEP = (1 << 31) - 1_000_000


@dataclass(frozen=True)
class Candidate:
    """A process that belongs to what was named; `said_role` is what its probe says of it."""

    pid: int
    rank: int | None
    world_size: int | None
    said_role: str
    ancestors: tuple[int, ...] = ()


@dataclass(frozen=True)
class Choice:
    candidate: Candidate
    role: str
    reason: str | None
    """Why it is left out; None if it is asked."""


def choose(candidates: Sequence[Candidate], ranks: Collection[int]) -> list[Choice]:
    """Ranks where there are any, else the main processes; never launchers and workers."""
    roles = roles_of(candidates)
    has_ranks = RANK in roles.values()
    chosen = []
    for candidate in candidates:
        role = roles[candidate.pid]
        reason = None
        if role == LAUNCHER:
            reason = "a launcher, it only waits for its ranks"
        elif role == WORKER:
            reason = "a helper process of another, not a rank"
        elif has_ranks and role == MAIN:
            reason = "not a rank"
        elif ranks and candidate.rank not in ranks:
            reason = "not asked for"
        chosen.append(Choice(candidate, role, reason))
    return chosen


def roles_of(candidates: Sequence[Candidate]) -> dict[int, str]:
    """A launcher is above a rank; a worker below a rank or a main process."""
    by_pid = {candidate.pid: candidate for candidate in candidates}
    said = {c.pid for c in candidates if c.said_role == RANK}
    # The helpers of a rank inherit its environment, and with it what makes them look like one.
    ranks = {pid for pid in said if not said & set(by_pid[pid].ancestors)}
    above_ranks = {above for pid in ranks for above in by_pid[pid].ancestors}
    roles = {}
    for candidate in candidates:
        below_other = any(above in by_pid for above in candidate.ancestors)
        if candidate.pid in ranks:
            roles[candidate.pid] = RANK
        elif candidate.pid in said:
            roles[candidate.pid] = WORKER
        elif candidate.pid in above_ranks or (ranks and candidate.said_role == MAIN):
            roles[candidate.pid] = LAUNCHER if candidate.pid in above_ranks else MAIN
        elif candidate.said_role == WORKER or below_other:
            roles[candidate.pid] = WORKER
        else:
            roles[candidate.pid] = MAIN
    return roles


def missing_ranks(candidates: Sequence[Candidate], ranks: Collection[int]) -> list[int]:
    """Ranks that were asked for and that no process here has."""
    return sorted(set(ranks) - {candidate.rank for candidate in candidates})


def with_facts(candidate: Candidate, facts: Mapping[str, object]) -> Candidate:
    """torch.distributed knows its rank better than the environment the process was started with."""
    rank, world_size = facts.get("rank"), facts.get("world_size")
    if type(rank) is not int or type(world_size) is not int or not 0 <= rank < world_size:
        return candidate
    return replace(candidate, rank=rank, world_size=world_size, said_role=RANK)


def with_ancestors(candidate: Candidate, ancestors: tuple[int, ...]) -> Candidate:
    return replace(candidate, ancestors=ancestors)


@dataclass(frozen=True)
class Progress:
    """How many steps a process had done at some time, twice."""

    first_ns: int
    first_steps: int
    last_ns: int
    last_steps: int

    def step_ns(self) -> int | None:
        """The shortest time that a step takes, as far as was seen; None if none was."""
        elapsed_ns = self.last_ns - self.first_ns
        done = self.last_steps - self.first_steps
        if done <= 0 or elapsed_ns <= 0:
            return None
        # Of few steps the first and the last may have been cut short.
        return max(_SHORTEST_STEP_NS, elapsed_ns // (done + 1 if done < 3 else done))


def step_times(
    seen_ns: Sequence[int | None], known_ns: Sequence[int | None], elapsed_ns: int
) -> list[int]:
    """Of each process: what was seen of it, else of the others, which do the same steps, else what
    its probe has known before, else the time in which it did none."""
    of_all = min((ns for ns in seen_ns if ns), default=None)
    return [
        max(_SHORTEST_STEP_NS, seen or of_all or known or elapsed_ns)
        for seen, known in zip(seen_ns, known_ns, strict=True)
    ]


def first_step(progress: Sequence[tuple[Progress, int]], ready_ns: int) -> int:
    """The first step that no process has begun when the last of them has got its request.

    `progress`: of each process, with the time that a step of it takes; `ready_ns`: when the last
    one has polled.
    """
    first = max(
        p.last_steps + math.ceil(max(0, ready_ns - p.last_ns) * _FASTER / step_ns) + STEPS_BEFORE
        for p, step_ns in progress
    )
    return min(first, LAST_STEP)


def calls_of(steps: int, known: Sequence[tuple[int, int]]) -> int:
    """How many calls of optimizers hold that many steps as a whole, wherever they begin.

    `known`: of each process the calls and the steps that it has done.
    """
    a_step = max((round(calls / done) for calls, done in known if done > 0), default=1)
    return steps if a_step <= 1 else min((steps + 1) * a_step - 1, MOST_CALLS)


def ready_ns(polls: Sequence[tuple[int, int]], now_ns: int, margin_ns: int) -> int:
    """When all have polled once more: `polls` are the last poll of each and its period."""
    due = [now_ns]
    for polled_ns, period_ns in polls:
        bounded_ns = min(max(period_ns, 500_000_000), 10_000_000_000)
        next_ns = polled_ns + bounded_ns
        # One that is late already may need a whole period more.
        due.append(next_ns if next_ns > now_ns else now_ns + bounded_ns)
    return max(due) + margin_ns
