from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from pilotlight.insights.hang import (
    CYCLE,
    DEVICE,
    MISMATCH,
    NO_COLLECTIVE,
    NO_DUMP,
    NO_HANG,
    NOT_ENTERED,
    UNREADABLE,
    find_culprits,
)
from pilotlight.simulate.hang import hung_dumps
from pilotlight.trace.flight_recorder import Dump, Group, Operation, read_dumps

WORLD = (0, 1, 2, 3)


def operation(
    group: str, sequence: int, name: str = "nccl:all_reduce", sizes: str = ""
) -> Operation:
    return Operation(group, sequence, name, "send" in name or "recv" in name, sizes, "scheduled")


def dump(
    rank: int, counts: dict[str, tuple[int, int]], *pending: Operation, **ranks: object
) -> Dump:
    members = {"world": WORLD, "left": (0, 1), "right": (2, 3), "cross": (1, 2)}
    groups = {
        name: Group(name, "", members[name], entered, finished)
        for name, (entered, finished) in counts.items()
    }
    return Dump(f"dump_{rank}", rank, "2.9", groups, tuple(pending))


def at_fault(*dumps: Dump) -> dict[int, str]:
    return {culprit.rank: culprit.cause for culprit in find_culprits(dumps).culprits}


def test_the_rank_that_did_not_enter_and_waits_for_nobody_is_at_fault() -> None:
    waiting = [dump(r, {"world": (8, 7)}, operation("world", 8)) for r in (0, 1, 3)]
    assert at_fault(*waiting, dump(2, {"world": (7, 7)})) == {2: NOT_ENTERED}


def test_a_rank_that_is_late_because_it_waits_itself_is_not_at_fault() -> None:
    found = at_fault(
        dump(0, {"world": (8, 7), "left": (3, 3)}, operation("world", 8)),
        dump(1, {"world": (7, 7), "left": (3, 3), "cross": (5, 4)}, operation("cross", 5)),
        dump(2, {"world": (7, 7), "cross": (4, 4)}),
        dump(3, {"world": (8, 7)}, operation("world", 8)),
    )
    assert found == {2: NOT_ENTERED}


def test_a_group_without_a_list_of_members_consists_of_those_that_use_it() -> None:
    waiting = [dump(r, {"world": (8, 7)}, operation("world", 8)) for r in (0, 1, 3)]
    dumps = [*waiting, dump(2, {"world": (7, 7)})]
    bare = [replace(d, groups={"world": replace(d.groups["world"], ranks=())}) for d in dumps]
    assert at_fault(*bare) == {2: NOT_ENTERED}


def test_a_rank_without_a_dump_that_others_wait_for_is_at_fault() -> None:
    waiting = [dump(r, {"world": (8, 7)}, operation("world", 8)) for r in (0, 1, 3)]
    assert at_fault(*waiting) == {2: NO_DUMP}


def test_a_rank_that_never_finished_what_its_peers_finished_has_a_stuck_device() -> None:
    done = [dump(r, {"world": (9, 8)}, operation("world", 9)) for r in (0, 1, 3)]
    stuck = dump(2, {"world": (9, 5)}, *(operation("world", s) for s in (6, 7, 8, 9)))
    assert at_fault(*done, stuck) == {2: DEVICE}


def test_finishing_a_broadcast_earlier_than_a_peer_blames_nobody() -> None:
    pending = operation("world", 6, "nccl:broadcast")
    dumps = [dump(0, {"world": (6, 6)})]
    dumps += [dump(r, {"world": (6, 5)}, pending) for r in (1, 2, 3)]
    assert DEVICE not in at_fault(*dumps).values()


def test_the_rank_that_calls_another_collective_is_at_fault() -> None:
    usual = [dump(r, {"world": (8, 7)}, operation("world", 8)) for r in (0, 1, 2)]
    other = dump(3, {"world": (8, 7)}, operation("world", 8, "nccl:all_to_all"))
    assert at_fault(*usual, other) == {3: MISMATCH}


def test_the_rank_with_another_shape_is_at_fault() -> None:
    usual = [dump(r, {"world": (8, 7)}, operation("world", 8, sizes="[[4]]")) for r in (0, 1, 2)]
    other = dump(3, {"world": (8, 7)}, operation("world", 8, sizes="[[5]]"))
    assert at_fault(*usual, other) == {3: MISMATCH}


def test_ranks_that_use_groups_in_opposite_order_wait_in_a_circle() -> None:
    found = at_fault(
        dump(1, {"left": (3, 3), "cross": (5, 4), "world": (2, 2)}, operation("cross", 5)),
        dump(2, {"cross": (4, 4), "world": (3, 2)}, operation("world", 3)),
        dump(0, {"world": (3, 2)}, operation("world", 3)),
        dump(3, {"world": (3, 2)}, operation("world", 3)),
    )
    assert found == {1: CYCLE, 2: CYCLE}


def test_a_receive_without_a_send_waits_for_the_sender() -> None:
    found = at_fault(
        dump(0, {"left": (3, 2)}, operation("left", 3, "nccl:recv 0<-1")),
        dump(1, {"left": (2, 2)}),
    )
    assert found == {1: NOT_ENTERED}


def test_all_entered_and_none_finished_is_the_network() -> None:
    report = find_culprits([dump(r, {"world": (8, 7)}, operation("world", 8)) for r in WORLD])
    assert report.culprits == ()
    assert "network" in report.conclusion


def test_idle_ranks_do_not_hang() -> None:
    report = find_culprits([dump(r, {"world": (8, 8)}) for r in WORLD])
    assert report.culprits == ()
    assert "no hang" in report.conclusion


def test_dumps_without_any_collective_say_nothing_of_a_hang() -> None:
    assert find_culprits([dump(rank, {}) for rank in WORLD]).conclusion == NO_COLLECTIVE
    assert find_culprits([dump(rank, {"world": (7, 7)}) for rank in WORLD]).conclusion == NO_HANG


@pytest.mark.parametrize(
    ("folder", "ranks", "cause"),
    [("gpu_error_1st", [12, 14], DEVICE), ("lock_gil_1st", [9, 14], NOT_ENTERED)],
)
def test_the_real_dumps_name_the_injected_ranks(
    shared_data: Path, folder: str, ranks: list[int], cause: str
) -> None:
    dumps = read_dumps(shared_data / "flight_recorder" / folder)
    assert dumps.problems == ()
    report = find_culprits(dumps.dumps)
    assert [culprit.rank for culprit in report.culprits] == ranks
    assert {culprit.cause for culprit in report.culprits} == {cause}


def test_a_lost_dump_of_a_rank_at_fault_still_names_it(shared_data: Path) -> None:
    dumps = read_dumps(shared_data / "flight_recorder" / "lock_gil_1st").dumps
    report = find_culprits([d for d in dumps if d.rank != 9])
    assert [culprit.rank for culprit in report.culprits] == [9, 14]


def test_a_rank_whose_dump_is_damaged_is_not_blamed_beside_those_at_fault() -> None:
    dumps, faults = hung_dumps("missing", 8, np.random.default_rng(3))
    innocent = next(dump.rank for dump in dumps if dump.rank not in faults)
    report = find_culprits([d for d in dumps if d.rank != innocent], [innocent])
    assert [culprit.rank for culprit in report.culprits] == sorted(faults)
    assert report.conclusion.endswith(f"nothing is known of {innocent}: dump unreadable")


def test_ranks_whose_dumps_are_damaged_are_named_if_nobody_else_is() -> None:
    dumps, faults = hung_dumps("missing", 8, np.random.default_rng(3))
    report = find_culprits([d for d in dumps if d.rank not in faults], faults)
    found = [(culprit.rank, culprit.cause) for culprit in report.culprits]
    assert found == [(rank, UNREADABLE) for rank in sorted(faults)]
