"""Flight-recorder dumps of a job that hangs, with known truth."""

from __future__ import annotations

import json
from collections.abc import Sequence

import numpy as np

from pilotlight.errors import UsageError
from pilotlight.trace.flight_recorder import Dump, Group, Operation

HANGS = ("missing", "mismatched", "partial")
HANG_PREFIX = "hang_"
HANG_FAULTS = tuple(HANG_PREFIX + kind for kind in HANGS)


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
    return dumps_of(kind, ranks, truth, int(random.integers(50, 5000))), truth


def dumps_of(kind: str, ranks: int, truth: Sequence[int], sequence: int) -> tuple[Dump, ...]:
    """One for each rank of a job that hangs in this collective because of those of `truth`."""
    groups = _groups(ranks)
    return tuple(_dump(rank, kind, rank in truth, sequence, groups) for rank in range(ranks))


def parse_hangs(texts: Sequence[str], ranks: int) -> tuple[str, tuple[int, ...]]:
    """The kind and the ranks at fault of `hang_missing:rank=3`, once for each of the ranks."""
    kinds, truth = set(), set()
    for text in texts:
        kind, _, rest = text.partition(":")
        rank = rest.removeprefix("rank=") or "0"
        if kind not in HANG_FAULTS:
            raise UsageError(f"{text}: no such hang; one of {', '.join(HANG_FAULTS)}")
        if not rank.isdecimal() or int(rank[:9]) >= ranks:
            raise UsageError(f"{text}: rank=0..{ranks - 1} is possible")
        kinds.add(kind.removeprefix(HANG_PREFIX))
        truth.add(int(rank))
    if len(kinds) > 1 or len(truth) > max(1, ranks - 2):
        raise UsageError(f"{', '.join(texts)}: a job hangs in one way, and two ranks wait in it")
    return kinds.pop(), tuple(sorted(truth))


def dump_text(dump: Dump) -> str:
    """As PyTorch's flight recorder writes it in JSON."""
    entries = [
        {
            "process_group": [one.group, "default_pg"],
            "collective_seq_id": one.sequence,
            "profiling_name": one.name,
            "is_p2p": one.is_p2p,
            "input_sizes": json.loads(one.sizes),
            "input_dtypes": ["BFloat16"],
            "state": one.state,
        }
        for one in dump.pending
    ]
    groups = dump.groups.values()
    return json.dumps(
        {
            "version": dump.version,
            "pg_config": {one.name: {"ranks": str(list(one.ranks))} for one in groups},
            "pg_status": {
                one.name: {
                    "last_enqueued_collective": one.enqueued,
                    "last_completed_collective": one.completed,
                }
                for one in groups
            },
            "entries": entries,
        }
    )


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
