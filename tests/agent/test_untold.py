"""What onlookers are told of reductions of which the adapter tells every n-th."""

from __future__ import annotations

from array import array

import pytest

from pilotlight.agent.reductions import REDUCTION
from pilotlight.agent.tables import Tables, packed
from pilotlight.agent.untold import Untold
from pilotlight.recording.schema import TABLES

_MS = 1_000_000
PHASES = {"forward": 0.1, "backward": 0.6, "communication": 0.01}


def _names(*found: str) -> Tables:
    data = "".join(found).encode()
    offsets = array("i", [0])
    for text in found:
        offsets.append(offsets[-1] + len(text.encode()))
    ids = array("I", range(7, 7 + len(found))).tobytes()
    return {"names": (len(found), {"id": ids, "text": data, "text:offsets": offsets.tobytes()})}


def _told(*reductions: tuple[int, int], name: int = 8) -> Tables:
    columns = [column.name for column in TABLES["collectives"].columns]
    rows = []
    for sequence, wait_ms in reductions:
        row = dict.fromkeys(columns, 0)
        row |= {"name": name, "group": 1, "sequence": sequence, "wait_ns": wait_ms * _MS}
        rows.append(tuple(row.values()))
    return {"collectives": packed("collectives", rows)}


def _watched(*batches: tuple[Tables, int]) -> Untold:
    untold = Untold()
    untold.see(_names("train", REDUCTION), 0)
    for tables, steps in batches:
        untold.see(tables, steps)
    return untold


def test_the_wait_of_reductions_that_are_not_told_is_no_backward() -> None:
    # One of 64; each step of 20 ms has one of 8 ms.
    untold = _watched(*((_told((64 * n, 8)), 64 * n) for n in range(1, 5)))
    shared = untold.shared(PHASES, steps_per_s=50.0)
    assert shared["communication"] == pytest.approx(0.01 + 0.4 * 63 / 64, abs=1e-3)
    assert sum(shared.values()) == pytest.approx(sum(PHASES.values()), abs=1e-3)


def test_no_more_is_moved_than_the_backward_has() -> None:
    untold = _watched(*((_told((64 * n, 50)), 64 * n) for n in range(1, 5)))
    shared = untold.shared(PHASES, steps_per_s=50.0)
    assert (shared["backward"], shared["communication"]) == (0.0, 0.61)


def test_where_all_are_told_and_of_other_collectives_nothing_is_moved() -> None:
    every_one = _watched((_told((1, 8), (2, 8)), 2), (_told((3, 8), (4, 8)), 4))
    others = _watched((_told((1, 8), name=7), 1), (_told((99, 8), name=7), 99))
    anew = _watched((_told((640, 8)), 640), (_told((1, 8)), 641))
    for untold in (every_one, others, anew, Untold()):
        assert untold.shared(PHASES, steps_per_s=50.0) == PHASES
