"""Flight-recorder dumps of a job that hangs, with known truth."""

from __future__ import annotations

import numpy as np

from pilotlight.trace.flight_recorder import Dump, Group, Operation

HANGS = ("missing", "mismatched", "partial")


def hung_dumps(
    kind: str, ranks: int, random: np.random.Generator
) -> tuple[tuple[Dump, ...], tuple[int, ...]]:
    """The dumps, and the ranks at fault: `missing` ranks have not entered the collective that the
    others wait in, a `mismatched` one calls another, and of `partial` the device does not finish
    what its peers have finished."""
    count = 1 if kind == "mismatched" else int(random.integers(1, 3))
    truth = tuple(
        sorted(int(r) for r in random.choice(ranks, min(count, ranks - 2), replace=False))
    )
    sequence = int(random.integers(50, 5000))
    groups = _groups(ranks)
    return tuple(_dump(rank, kind, rank in truth, sequence, groups) for rank in range(ranks)), truth


def _groups(ranks: int) -> dict[str, tuple[int, ...]]:
    half = ranks // 2
    return {
        "0": tuple(range(ranks)),
        **{f"tp{i}": (2 * i, 2 * i + 1) for i in range(half)},
    }


def _dump(
    rank: int, kind: str, at_fault: bool, sequence: int, groups: dict[str, tuple[int, ...]]
) -> Dump:
    """The world's collective hangs; the pairs have all finished theirs before."""
    enqueued, completed = sequence, sequence - 1
    pending: tuple[Operation, ...] = ()
    name, sizes = "nccl:all_reduce", "[[4096]]"
    if kind == "missing" and at_fault:
        enqueued = sequence - 1
    elif kind == "mismatched" and at_fault:
        name, sizes = "nccl:all_reduce", "[[2048]]"
    elif kind == "partial" and not at_fault:
        completed = sequence
    if completed < enqueued:
        pending = (Operation("0", sequence, name, False, sizes, "started"),)
    states = {
        group: Group(group, "", members, enqueued, completed)
        if group == "0"
        else Group(group, "", members, 3 * sequence, 3 * sequence)
        for group, members in groups.items()
        if rank in members
    }
    return Dump(f"simulated dump {rank}", rank, "2.9", states, pending)
