from __future__ import annotations

from pathlib import Path

import pytest
from tests.recording.example import Process, write_example

from pilotlight.recording.recording import Recording
from pilotlight.report.headline import headline
from pilotlight.report.phases import PhaseTimes
from pilotlight.report.report import Report, report_of

MS = 1_000_000
S = 1_000 * MS
THREAD = 7
PHASE, MODULE = 3, 4


def report(folder: Path, *processes: Process) -> Report:
    return report_of(Recording.open(write_example(folder, *processes)))


def stepping(index: int = 0) -> Process:
    """Ten steps of 10 ms: 4 data, 3 forward, 1 optimizer, 2 of nothing that is told."""
    process = Process(index)
    for number in range(10):
        start = S + number * 10 * MS
        process.add("steps", THREAD, number, start, 10 * MS)
        for name, begin, length in (("data", 0, 4), ("forward", 4, 3), ("optimizer", 8, 1)):
            place = start + begin * MS
            process.add("spans", THREAD, process.name(name), PHASE, 0, place, length * MS)
        process.add("spans", THREAD, process.name("Net"), MODULE, 0, start + 4 * MS, 2 * MS)
    return process


def by_name(found: Report) -> dict[str, PhaseTimes]:
    return {times.phase: times for times in found.phases}


def test_phases_and_what_is_left_add_up_to_the_steps(tmp_path: Path) -> None:
    phases = by_name(report(tmp_path, stepping()))
    assert {name: times.total_ns // MS for name, times in phases.items()} == {
        "data": 40,
        "forward": 30,
        "optimizer": 10,
        "other": 20,
    }
    assert phases["data"].ratio == pytest.approx(0.4)
    assert phases["forward"].count == 10


def test_what_lies_outside_of_steps_or_on_other_threads_does_not_count(tmp_path: Path) -> None:
    process = stepping()
    checkpoint = process.name("checkpoint")
    process.add("spans", THREAD, checkpoint, PHASE, 0, 2 * S, 500 * MS)
    process.add("spans", 8, checkpoint, PHASE, 0, S, 50 * MS)
    process.add("spans", THREAD, checkpoint, PHASE, 1, S, 50 * MS)
    assert "checkpoint" not in by_name(report(tmp_path, process))


def test_a_process_without_phases_has_none(tmp_path: Path) -> None:
    process = Process(0)
    process.add("steps", THREAD, 0, S, MS)
    assert report(tmp_path, process).phases == ()


def test_the_headline_says_that_a_step_waits_for_data(tmp_path: Path) -> None:
    text = headline(report(tmp_path, stepping(0), stepping(1)))
    assert "; 40.0 % of it on each rank is waiting for data" in text


def test_phases_and_modules_are_no_ranges(tmp_path: Path) -> None:
    found = report(tmp_path, stepping())
    assert found.ranges == ()
    (module,) = found.frameworks.modules
    assert (module.name, module.count, module.total_ns) == ("Net", 10, 20 * MS)


def test_collectives_are_summed_by_operation_and_group(tmp_path: Path) -> None:
    process = Process(0)
    names = [process.name(text) for text in ("all_reduce", "0 default_pg", "float32")]
    for number, flags in ((1, 2), (2, 2), (3, 1)):
        process.add(
            "collectives", THREAD, names[0], names[1], names[2], 0, 2, flags, number * S, 5 * MS,
            2 * MS, 1000, number, 0,
        )  # fmt: skip
    (found,) = report(tmp_path, process).frameworks.collectives
    assert (found.operation, found.group, found.count) == ("all_reduce", "0 default_pg", 3)
    # One was asynchronous and nobody waited for it: when it ended is not known.
    assert (found.bytes, found.timed, found.total_ns) == (3000, 2, 10 * MS)
    assert (found.waits, found.wait_ns) == (2, 4 * MS)


def test_recompilations_are_told_with_their_guard(tmp_path: Path) -> None:
    process = Process(0)
    for time in (1, 2):
        process.add("marks", THREAD, process.name("recompile f: x changed"), 1, time * S, 1)
    process.add("marks", THREAD, process.name("of the program"), 1, S, 1)
    (mark,) = report(tmp_path, process).frameworks.marks
    assert (mark.text, mark.count) == ("recompile f: x changed", 2)


def test_reductions_that_were_not_told_are_taken_from_the_backward(tmp_path: Path) -> None:
    process = Process(0)
    names = [process.name(text) for text in ("ddp.all_reduce", "0 default_pg", "float32")]
    for number in range(1, 9):
        start = S + number * 10 * MS
        process.add("steps", THREAD, number, start, 10 * MS)
        told = number % 4 == 0
        length = 6 if told else 8
        process.add("spans", THREAD, process.name("backward"), PHASE, 0, start, length * MS)
        if told:
            wait = start + 6 * MS
            process.add("spans", THREAD, process.name("communication"), PHASE, 0, wait, 2 * MS)
            process.add(
                "collectives", THREAD, *names, 0, 2, 2, wait, 2 * MS, 2 * MS, 1000, number, 0
            )
    phases = by_name(report(tmp_path, process))
    # Between the two that are told three are not, of which each waits as long as those do.
    assert phases["communication"].total_ns == (2 * 2 + 3 * 2) * MS
    assert phases["backward"].total_ns == (2 * 6 + 6 * 8 - 3 * 2) * MS
    assert phases["communication"].is_estimate


def test_of_accumulated_gradients_only_the_last_backward_of_a_step_waits(tmp_path: Path) -> None:
    process = Process(0)
    names = [process.name(text) for text in ("ddp.all_reduce", "0 default_pg", "float32")]
    backward, communication = process.name("backward"), process.name("communication")
    counter = process.name("ddp.reductions 0 default_pg")
    for number in range(1, 11):
        start = S + number * 100 * MS
        process.add("steps", THREAD, number, start, 100 * MS)
        for micro in range(3):
            process.add("spans", THREAD, backward, PHASE, 0, start + micro * 10 * MS, 5 * MS)
        last, told = start + 30 * MS, number in (1, 8)
        # 5 ms of its own and 45 for the others, which are told apart in two of them.
        process.add("spans", THREAD, backward, PHASE, 0, last, (5 if told else 50) * MS)
        if told:
            wait = last + 5 * MS
            process.add("spans", THREAD, communication, PHASE, 0, wait, 45 * MS)
            process.add(
                "collectives", THREAD, *names, 0, 2, 2, wait, 45 * MS, 45 * MS, 1000, number, 0
            )
    process.add("counters", THREAD, counter, S + 1150 * MS, 10.0)
    found = report(tmp_path, process)
    phases = by_name(found)
    assert phases["communication"].total_ns == pytest.approx(10 * 45 * MS, rel=1e-6)
    assert phases["backward"].total_ns == pytest.approx(10 * 4 * 5 * MS, rel=1e-6)
    (reduction,) = found.frameworks.collectives
    assert reduction.count == 10


def test_a_reduction_stands_for_those_since_the_one_before_it(tmp_path: Path) -> None:
    process = Process(0)
    first, second, reduction, dtype = (
        process.name(text)
        for text in ("0 default_pg", "0 default_pg module 2", "ddp.all_reduce", "float32")
    )
    backward = process.name("backward")

    def told(group: int, sequence: int, start: int, wait: int) -> None:
        process.add(
            "collectives", THREAD, reduction, group, dtype, 0, 2, 2, start, wait * MS, wait * MS,
            1000, sequence, 0,
        )  # fmt: skip

    # All of the slow beginning, then every fourth. That one waits for half of its backward; the
    # three that it stands for lasted 8 ms each. The other model's are counted by themselves.
    for sequence, own, wait in ((1, 4, 50), (2, 4, 50), (6, 8, 8)):
        start = S + sequence * 100 * MS
        process.add("spans", THREAD, backward, PHASE, 0, start, own * MS)
        told(first, sequence, start + own * MS, wait)
    for sequence in (3, 4, 5):
        process.add("spans", THREAD, backward, PHASE, 0, S + sequence * 100 * MS, 8 * MS)
    told(second, 2, S + 900 * MS, 3)
    one, other = report(tmp_path, process).frameworks.collectives
    assert (one.count, one.bytes, one.waits) == (6, 6000, 6)
    assert one.wait_ns == one.total_ns == (50 + 50 + 8 + 3 * 4) * MS
    assert one.is_estimate
    assert (other.group, other.count, other.is_estimate) == ("0 default_pg module 2", 1, False)


def test_modules_of_the_last_step_that_was_told_stand_for_the_steps_that_were_left(
    tmp_path: Path,
) -> None:
    process = Process(0)
    name, every = process.name("Model"), process.name("modules.every")
    for number in range(70):
        process.add("steps", THREAD, number, S + number * 10 * MS, 10 * MS)
        if number <= 64:
            process.add("spans", THREAD, name, MODULE, 0, S + number * 10 * MS + MS, 2 * MS)
    process.add("counters", THREAD, every, S + 640 * MS, 64.0)
    (model,) = report(tmp_path, process).frameworks.modules
    assert (model.count, model.total_ns) == (70, 140 * MS)


def test_modules_that_were_told_in_some_steps_stand_for_the_others(tmp_path: Path) -> None:
    process = Process(0)
    name, every = process.name("Model"), process.name("modules.every")
    for number in range(6):
        process.add("spans", THREAD, name, MODULE, 0, S + number * 10 * MS, (number + 1) * MS)
    process.add("counters", THREAD, every, S + 15 * MS, 4.0)
    process.add("counters", THREAD, every, S + 45 * MS, 2.0)
    (model,) = report(tmp_path, process).frameworks.modules
    assert (model.count, model.total_ns) == (2 + 4 * 3 + 2, (1 + 2 + 4 * (3 + 4 + 5) + 2 * 6) * MS)
    assert (model.max_ns, model.is_estimate) == (6 * MS, True)
