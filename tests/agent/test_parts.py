from __future__ import annotations

from array import array

from pilotlight.agent.parts import StepParts
from pilotlight.agent.tables import Tables
from pilotlight.recording.schema import CollectiveFlag, SpanKind
from pilotlight.ship.definitions import Definitions
from pilotlight.ship.wire import PARTS, RECKONED, WAIT_KNOWN

SECOND = 1_000_000_000
MS = 1_000_000
BACKWARD, REDUCTION, GROUP, OTHER = 1, 2, 3, 4
COMPUTE, COMMUNICATION = 3 + PARTS.index("compute_ns"), 3 + PARTS.index("communication_ns")
WAIT = 3 + len(PARTS)


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


def _table(count: int, columns: dict[str, tuple[str, list[int]]]) -> tuple[int, dict[str, bytes]]:
    return count, {name: array(kind, told).tobytes() for name, (kind, told) in columns.items()}


def reducing(waits_ms: list[int], every: int, known: Definitions, size: int = 400) -> Tables:
    """Steps of 100 ms, of which a rank computes what it does not wait; its backward ends with the
    wait, which is told of every n-th."""
    known._names.update({BACKWARD: "backward", REDUCTION: "ddp.all_reduce", GROUP: "0"})
    count = len(waits_ms)
    told = [step for step in range(count) if step % every == 0]
    starts = [step * 100 * MS for step in range(count)]
    waits = [waits_ms[step] * MS for step in told]
    length = [100 * MS - waits_ms[step] * MS * (step % every == 0) for step in range(count)]
    return {
        "steps": _table(
            count,
            {
                "step": ("q", list(range(count))),
                "start_ns": ("q", starts),
                "duration_ns": ("q", [100 * MS] * count),
            },
        ),
        "spans": _table(
            count,
            {
                "kind": ("B", [int(SpanKind.PHASE)] * count),
                "name": ("I", [BACKWARD] * count),
                "start_ns": ("q", starts),
                "duration_ns": ("q", length),
            },
        ),
        "collectives": _table(
            len(told),
            {
                "flags": ("B", [int(CollectiveFlag.WAIT_KNOWN)] * len(told)),
                "name": ("I", [REDUCTION] * len(told)),
                "group": ("I", [GROUP] * len(told)),
                "bytes": ("q", [size] * len(told)),
                "sequence": ("Q", told),
                "start_ns": ("q", [starts[n] + (100 - waits_ms[n]) * MS for n in told]),
                "duration_ns": ("q", [wait - 1 for wait in waits]),
                "wait_ns": ("q", waits),
            },
        ),
    }


def test_waiting_that_is_not_told_is_reckoned_from_what_is_and_no_compute() -> None:
    known = Definitions()
    parts = StepParts(known)
    parts.add(reducing([40] * 64, 8, known))
    rows = parts.take(100 * SECOND)
    assert len(rows) == 64 and parts.is_reckoned
    for row in rows:
        assert abs(row[COMMUNICATION] - 40 * MS) < MS and abs(row[COMPUTE] - 60 * MS) < MS
    assert [bool(row[-1] & WAIT_KNOWN) for row in rows[:9]] == [True, *[False] * 7, True]
    assert [bool(row[-1] & RECKONED) for row in rows[:9]] == [False, *[True] * 7, False]


def test_what_is_reckoned_goes_with_the_length_of_a_step() -> None:
    known = Definitions()
    parts = StepParts(known)
    tables = reducing([40] * 64, 8, known)
    length = array("q", tables["spans"][1]["duration_ns"])
    length[60] = 20 * MS
    tables["spans"][1]["duration_ns"] = length.tobytes()
    parts.add(tables)
    row = parts.take(100 * SECOND)[60]
    assert abs(row[COMMUNICATION] - 8 * MS) < MS and abs(row[COMPUTE] - 12 * MS) < MS


def test_where_all_is_told_nothing_is_reckoned() -> None:
    known = Definitions()
    parts = StepParts(known)
    parts.add(reducing([5, 60] * 16, 1, known))
    rows = parts.take(100 * SECOND)
    assert not parts.is_reckoned and not any(row[-1] & RECKONED for row in rows)
    assert abs(rows[1][COMMUNICATION] - 60 * MS) < MS


def test_gradients_that_most_steps_do_not_reduce_are_not_reckoned_for_them() -> None:
    """The sequence counts reductions: one in four steps, of which every second is told."""
    known = Definitions()
    parts = StepParts(known)
    tables = reducing([40] * 64, 8, known)
    columns = tables["collectives"][1]
    columns["sequence"] = array("Q", range(0, 16, 2)).tobytes()
    parts.add(tables)
    rows = parts.take(100 * SECOND)
    reckoned = sum(row[COMMUNICATION] for row in rows if row[-1] & RECKONED)
    assert abs(reckoned - 8 * 40 * MS) < 40 * MS


def test_one_long_wait_is_not_reckoned_for_the_steps_around_it() -> None:
    known = Definitions()
    parts = StepParts(known)
    tables = reducing([10] * 64, 8, known)
    # In the last step that is told another rank wrote a checkpoint for 5 s.
    wait = array("q", tables["collectives"][1]["wait_ns"])
    length = array("q", tables["steps"][1]["duration_ns"])
    wait[-1], length[56] = 5 * SECOND, 5 * SECOND
    start = array("q", [step * 100 * MS + (5 * SECOND if step > 56 else 0) for step in range(64)])
    tables["collectives"][1]["wait_ns"] = wait.tobytes()
    columns = tables["steps"][1]
    columns["duration_ns"], columns["start_ns"] = length.tobytes(), start.tobytes()
    tables["spans"][1]["start_ns"] = start.tobytes()
    parts.add(tables)
    rows = parts.take(100 * SECOND)
    assert abs(rows[60][COMMUNICATION] - 10 * MS) < MS


def test_a_step_that_waits_elsewhere_too_is_told_with_all_of_its_waiting() -> None:
    """A short collective of every step is told: the reductions beside it count all the same."""
    known = Definitions()
    parts = StepParts(known)
    tables = reducing([40] * 64, 8, known)
    other = reducing([1] * 64, 1, known)["collectives"][1]
    other["name"] = array("I", [OTHER] * 64).tobytes()
    told = tables["collectives"][1]
    both = {name: told[name] + other[name] for name in told}
    parts.add({**tables, "collectives": (8 + 64, both)})
    rows = parts.take(100 * SECOND)
    assert all(row[-1] & WAIT_KNOWN for row in rows)
    assert all(abs(row[WAIT] - 41 * MS) < 2 * MS for row in rows), [row[WAIT] for row in rows[:9]]
