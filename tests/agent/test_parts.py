from __future__ import annotations

from array import array

from pilotlight.agent.parts import StepParts
from pilotlight.agent.tables import Tables
from pilotlight.ship.definitions import Definitions

SECOND = 1_000_000_000


def steps(count: int) -> Tables:
    """Of a second each, from 0 on."""
    starts = [index * SECOND for index in range(count)]
    columns = {"step": range(count), "start_ns": starts, "duration_ns": [SECOND] * count}
    return {"steps": (count, {name: array("q", told).tobytes() for name, told in columns.items()})}


def taken(parts: StepParts, until_ns: int) -> list[int]:
    return [row[0] for row in parts.take(until_ns)]


def test_a_step_waits_for_what_may_still_come_of_it() -> None:
    parts = StepParts(Definitions())
    parts.add(steps(5))
    assert taken(parts, 5 * SECOND) == [0, 1, 2]
    assert taken(parts, 6 * SECOND) == [3]


def test_the_last_steps_of_a_process_that_ended_go_with_the_next_batch() -> None:
    parts = StepParts(Definitions())
    parts.add(steps(5))
    assert taken(parts, 5 * SECOND) == [0, 1, 2]
    parts.close()
    assert taken(parts, 5 * SECOND) == [3, 4]
    assert taken(parts, 5 * SECOND) == []
