"""Whether the ranks of a capture have the same steps."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from pilotlight.capture.collect import Collected
from pilotlight.capture.examine import as_recorded, common_steps, examine, same_steps
from pilotlight.capture.manifest import Captured, Step
from pilotlight.capture.request import DONE, Answered

MS = 1_000_000


def captured(rank: int, first: int, start_ns: int, with_request: int | None) -> Captured:
    answered = Answered(
        pid=100 + rank,
        rank=rank,
        world_size=2,
        role="rank",
        how="kineto",
        state=DONE,
        reason=None,
        file=None,
        steps=None,
        start_ns=None,
        stacks=None,
        flight_recorder=None,
        steps_with_request=with_request,
    )
    steps = tuple(Step(first + n, start_ns + n * 10 * MS, 10 * MS) for n in range(3))
    window_ns = (start_ns, start_ns + 30 * MS)
    return Captured(answered, "node", f"rank{rank}.json.gz", 0, window_ns, 9, steps)


def test_a_trace_with_allocations_is_told_from_one_without(tmp_path: Path) -> None:
    span = {"ph": "X", "cat": "cpu_op", "name": "aten::mm", "pid": 1, "tid": 1, "ts": 1, "dur": 5}
    told = {"Device Type": 0, "Device Id": -1, "Bytes": 64, "Total Allocated": 64}
    taken = {"ph": "i", "name": "[memory]", "pid": 1, "tid": 1, "ts": 2, "s": "t", "args": told}
    answered = replace(captured(0, 1, 0, None).answered, how="kineto")
    for name, events in (("without", [span]), ("with", [span, taken])):
        (tmp_path / f"{name}.json").write_text(json.dumps({"traceEvents": events}))
        found, problems = examine(
            Collected(answered, f"{name}.json", None), tmp_path, "node", None, ()
        )
        assert (found.has_allocations, problems) == (name == "with", ())


def test_ranks_that_step_at_the_same_time_have_the_same_steps() -> None:
    assert same_steps([captured(0, 50, 0, None), captured(1, 50, 5 * MS, None)]) is True


def test_a_rank_that_began_steps_later_may_have_others() -> None:
    assert same_steps([captured(0, 50, 0, 40), captured(1, 50, 25 * MS, None)]) is False
    assert same_steps([captured(0, 50, 0, 40), captured(1, 50, 25 * MS, 49)]) is False


def test_a_rank_that_was_slow_to_begin_but_had_its_request_in_time_has_the_same() -> None:
    assert same_steps([captured(0, 50, 0, 40), captured(1, 50, 25 * MS, 48)]) is True


def test_other_numbers_are_other_steps_whenever_the_request_came() -> None:
    assert same_steps([captured(0, 50, 0, 40), captured(1, 51, 0, 40)]) is False


def test_traces_without_steps_say_nothing() -> None:
    assert same_steps([]) is None


@pytest.mark.parametrize(
    ("calls", "late", "held"),
    [
        (1, 0, [50, 51, 52, 53]),
        (1, 7, [57, 58, 59, 60]),
        (2, 0, [25, 26]),
        (2, 6, [28, 29]),
        (2, 5, [28]),
    ],
    ids=["in time", "late", "two optimizers", "two optimizers, late", "in the midst of a step"],
)
def test_a_trace_that_began_late_has_the_numbers_of_the_steps_it_holds(
    calls: int, late: int, held: list[int]
) -> None:
    recorded = [Step(n, n * 10 * MS, 10 * MS) for n in range(100)]
    length = 10 * MS // calls
    start = (50 + late) * length + MS // 10
    trace = [Step(50 + n, start + n * length, length) for n in range(4)]
    assert [step.number for step in as_recorded(trace, recorded)] == held


def test_steps_without_a_call_of_an_optimizer_are_among_those_that_a_trace_holds() -> None:
    recorded = [Step(n, n * 10 * MS, 10 * MS) for n in range(100)]
    # A gradient scaler left out the second of them.
    trace = [Step(40, 50 * 10 * MS, 10 * MS), Step(41, 51 * 10 * MS, 20 * MS)]
    assert [step.number for step in as_recorded(trace, recorded)] == [50, 51, 52]


def test_a_trace_whose_steps_nobody_recorded_keeps_the_numbers_it_was_asked_for() -> None:
    trace = [Step(50 + n, n * 10 * MS, 10 * MS) for n in range(3)]
    elsewhere = [Step(n, 10**15 + n * 10 * MS, 10 * MS) for n in range(100)]
    assert [step.number for step in as_recorded(trace, elsewhere)] == [50, 51, 52]
    assert [step.number for step in as_recorded(trace, [])] == [50, 51, 52]


def test_traces_by_time_have_the_steps_that_all_have_or_each_its_own() -> None:
    together = common_steps([captured(0, 50, 0, None), captured(1, 51, 0, None)])
    assert [[step.number for step in one.steps] for one in together] == [[51, 52], [51, 52]]
    apart = common_steps([captured(0, 50, 0, None), captured(1, 60, 0, None)])
    assert [one.steps[0].number for one in apart] == [50, 60]
    assert same_steps(apart) is False
