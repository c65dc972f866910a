"""Each rule on windows: ranks that have the cause, and near ones that have not."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from pilotlight.insights.online import CollectiveSum, Progress, RankWindow, diagnose_windows
from pilotlight.insights.verdicts import Diagnosis

STEPS = 40
SECOND = 1_000_000_000


def job(
    own: Callable[[int, int, np.random.Generator], float],
    ranks: int = 4,
    steps: int = STEPS,
    **more: Any,
) -> list[RankWindow]:
    """Ranks in step: each waits for the slowest. `more`: by rank what its window has besides."""
    random = np.random.default_rng(5)
    table = np.array([[own(r, s, random) for s in range(steps)] for r in range(ranks)])
    step_ns = table.max(axis=0) + 1e6
    windows = []
    for rank in range(ranks):
        parts = {"collective": step_ns - table[rank]}
        given = {name: value(rank) for name, value in more.items()}
        parts |= given.pop("parts_ns", {})
        windows.append(RankWindow(rank, range(steps), step_ns, parts, **given))
    return windows


def steady(rank: int, step: int, random: np.random.Generator) -> float:
    return 1e8 * (1 + 0.005 * random.standard_normal())


def causes(found: Diagnosis) -> dict[str, int | None]:
    return {finding.cause: finding.rank for finding in found.findings}


def test_equal_ranks_raise_no_alarm() -> None:
    assert causes(diagnose_windows(job(steady))) == {}


def test_the_rank_with_the_longest_time_of_its_own_is_the_straggler_with_its_gain() -> None:
    found = diagnose_windows(job(lambda r, s, g: steady(r, s, g) * (1.25 if r == 2 else 1)))
    (finding,) = found.findings
    assert (finding.rule, finding.rank) == ("A26", 2)
    assert finding.gain_ratio == pytest.approx(0.2, rel=0.2)


def test_a_straggler_is_not_said_from_a_few_steps() -> None:
    windows = job(lambda r, s, g: 1e8 * (1.25 if r == 2 else 1), steps=10)
    found = diagnose_windows(windows)
    assert found.findings == ()
    assert "20 steps" in next(row.missing for row in found.not_checked if row.rule == "A26")


def with_part(name: str) -> list[RankWindow]:
    return job(
        lambda r, s, g: steady(r, s, g) + (3e7 if r == 1 else 0),
        parts_ns=lambda r: {name: np.full(STEPS, 3e7 if r == 1 else 1e5)},
    )


@pytest.mark.parametrize(
    ("part", "cause"),
    [("loader", "loader"), ("gc", "gc"), ("checkpoint", "checkpoint"), ("compile", "recompile")],
)
def test_the_part_that_holds_the_excess_names_the_cause(part: str, cause: str) -> None:
    assert causes(diagnose_windows(with_part(part))) == {cause: 1}


@pytest.mark.parametrize(("times", "confidence"), [(1, "medium"), (2, "high")])
def test_a_wait_for_the_loader_that_was_seen_once_is_not_told_with_certainty(
    times: int, confidence: str
) -> None:
    waits = np.full(STEPS, 0.0)
    waits[10 : 10 + times] = 0.4 * STEPS * 1e8 / times
    windows = job(
        lambda r, s, g: steady(r, s, g) + waits[s], ranks=1, parts_ns=lambda r: {"loader": waits}
    )
    (finding,) = (row for row in diagnose_windows(windows).findings if row.rule == "A08")
    assert finding.gain_high_ratio > 0.15
    assert finding.confidence == confidence


def test_compute_that_takes_longer_on_one_rank_is_a_slow_device() -> None:
    assert causes(diagnose_windows(with_part("compute"))) == {"slow_gpu": 1}


def test_a_throttled_clock_explains_the_slow_device() -> None:
    windows = job(
        lambda r, s, g: steady(r, s, g) + (3e7 if r == 1 else 0),
        parts_ns=lambda r: {"compute": np.full(STEPS, 1.2e8 if r == 1 else 0.9e8)},
        counters=lambda r: {"sm_clock_mhz": 1300.0 if r == 1 else 1900.0},
    )
    assert causes(diagnose_windows(windows)) == {"throttle": 1}


def test_a_clock_that_is_low_on_all_ranks_is_no_fault() -> None:
    windows = job(
        steady,
        counters=lambda r: {"sm_clock_mhz": 1200.0, "throttle_ratio": 0.9},
    )
    assert causes(diagnose_windows(windows)) == {}


def test_a_starved_control_group_explains_the_straggler() -> None:
    windows = job(
        lambda r, s, g: steady(r, s, g) + (3e7 if r == 3 else 0),
        counters=lambda r: {"cgroup_throttled_ratio": 0.4 if r == 3 else 0.0},
    )
    assert causes(diagnose_windows(windows)) == {"cpu_contention": 3}


def test_ranks_that_are_slow_in_turn_have_unequal_work() -> None:
    windows = job(lambda r, s, g: 1e8 * float(g.uniform(0.6, 1.4)), ranks=8)
    assert causes(diagnose_windows(windows)) == {"imbalance": None}


def test_single_long_steps_are_irregular() -> None:
    windows = job(lambda r, s, g: steady(r, s, g) * (3 if s in (11, 29) else 1))
    (finding,) = diagnose_windows(windows).findings
    assert finding.cause == "irregular"
    assert "11, 29" in " ".join(finding.evidence)


def test_a_network_that_became_slower_is_a_change_with_its_step() -> None:
    def parts(rank: int) -> dict[str, Any]:
        return {"exposed_communication": np.where(np.arange(STEPS) < 25, 1e6, 3e7)}

    windows = job(lambda r, s, g: steady(r, s, g) + (0 if s < 25 else 3e7), parts_ns=parts)
    (finding,) = diagnose_windows(windows).findings
    assert finding.cause == "changed"
    assert "step 25" in finding.title


def test_compute_that_grows_alike_on_all_ranks_is_the_job_itself() -> None:
    windows = job(lambda r, s, g: steady(r, s, g) * (1 if s < 25 else 1.3))
    assert causes(diagnose_windows(windows)) == {}


def group_windows(gb_per_s: list[float]) -> list[RankWindow]:
    size = 40 << 30
    rows = [
        CollectiveSum("all_reduce", f"dp{i}", 2, 10, size, size / rate, 0.0)
        for i, rate in enumerate(gb_per_s)
    ]
    return job(steady, ranks=2 * len(rows), collectives=lambda r: (rows[r // 2],))


def test_a_group_with_a_slow_link_is_named_with_its_ranks() -> None:
    (finding,) = diagnose_windows(group_windows([100, 40, 100, 101])).findings
    assert finding.cause == "slow_link"
    assert "ranks 2, 3" in finding.place


def test_links_that_differ_little_are_no_fault() -> None:
    assert causes(diagnose_windows(group_windows([100, 95, 100, 101]))) == {}


def progress(entered: int, last_step_ns: int = 0, **more: Any) -> Progress:
    return Progress(last_step_ns, {"world": entered}, {"world": entered - 1}, **more)


def hanging(*entered: int, **more: Any) -> list[RankWindow]:
    return [
        RankWindow(rank, [1, 2], [1e8, 1e8], progress=progress(number, **more))
        for rank, number in enumerate(entered)
    ]


def test_the_rank_that_has_not_entered_the_collective_is_missing() -> None:
    (finding,) = diagnose_windows(hanging(7, 7, 6, 7), 60 * SECOND).findings
    assert (finding.cause, finding.rank) == ("hang", 2)
    assert "collective 7" in " ".join(finding.evidence)


def test_the_collective_that_a_rank_is_missing_from_is_named() -> None:
    windows = hanging(7, 7, 6, 7, operations={"world": "all_reduce"})
    (finding,) = diagnose_windows(windows, 60 * SECOND).findings
    assert "not entered: all_reduce, collective 7 of group world" in finding.evidence


def test_a_rank_that_does_not_say_where_it_is_while_others_wait_is_missing() -> None:
    silent = RankWindow(3, [1, 2], [1e8, 1e8], progress=Progress(0))
    (finding,) = diagnose_windows([*hanging(7, 7, 7), silent], 60 * SECOND).findings
    assert finding.rank == 3
    assert "the others wait in collective 7 of group world" in " ".join(finding.evidence)


def test_a_job_that_made_a_step_just_now_does_not_hang() -> None:
    windows = hanging(7, 7, 6, 7, last_step_ns=50 * SECOND)
    assert diagnose_windows(windows, 60 * SECOND).findings == ()


def test_if_all_have_entered_and_none_leaves_nobody_is_blamed() -> None:
    (finding,) = diagnose_windows(hanging(7, 7, 7), 60 * SECOND).findings
    assert finding.rank is None
    assert "network" in " ".join(finding.evidence)


def test_no_windows_is_no_finding_and_says_so() -> None:
    found = diagnose_windows([])
    assert found.findings == ()
    assert all("no steps" in row.missing for row in found.not_checked)


def told_now_and_then(late_ns: float) -> tuple[list[RankWindow], list[RankWindow]]:
    """Two ranks whose waiting is told of every tenth step; rank 1 takes longer."""
    random = np.random.default_rng(7)
    own = [1e8 * (1 + 0.005 * random.standard_normal(240)) + (late_ns if r else 0) for r in (0, 1)]
    step_ns = np.maximum(*own) + 1e6
    windows, told = [], []
    for rank in (0, 1):
        numbers = np.arange(240)
        windows.append(RankWindow(rank, numbers, step_ns, {"phases": step_ns}))
        parts = {"exposed_communication": (step_ns - own[rank])[::10]}
        told.append(RankWindow(rank, numbers[::10], step_ns[::10], parts))
    return windows, told


def test_ranks_are_compared_in_the_steps_of_which_their_waiting_is_told() -> None:
    windows, told = told_now_and_then(3e7)
    assert causes(diagnose_windows(windows)) == {}
    assert causes(diagnose_windows(windows, told=told)) == {"straggler": 1}


def test_few_steps_that_are_far_apart_are_enough_if_all_say_the_same() -> None:
    windows, told = told_now_and_then(3e7)
    few = [replace(w, step=w.step[:8], step_ns=w.step_ns[:8], parts_ns=_first(w, 8)) for w in told]
    assert causes(diagnose_windows(windows, told=few)) == {"straggler": 1}
    assert causes(diagnose_windows(few)) == {}
    late = np.array(few[1].parts_ns["exposed_communication"])
    late[3] += 2.9e7
    once = replace(few[1], parts_ns={"exposed_communication": late})
    assert causes(diagnose_windows(windows, told=[few[0], once])) == {}


def _first(window: RankWindow, count: int) -> dict[str, Any]:
    return {name: part[:count] for name, part in window.parts_ns.items()}


def test_two_ranks_that_differ_a_little_have_no_straggler() -> None:
    windows, told = told_now_and_then(3e6)
    assert causes(diagnose_windows(windows, told=told)) == {}


def test_a_rank_that_has_just_begun_to_be_late_is_no_imbalance() -> None:
    windows = job(lambda r, s, g: steady(r, s, g) + (1e8 if r == 2 and s >= 30 else 0))
    assert "imbalance" not in causes(diagnose_windows(windows))


def begun(step: int, rank: int, steps: int) -> bool:
    """Whether rank 2 is late: in the last of them."""
    return rank == 2 and step >= STEPS - steps


@pytest.mark.parametrize(("ranks", "steps"), [(8, 3), (4, 4), (4, 5)])
def test_a_rank_that_begins_to_be_late_in_long_steps_is_named_after_a_few_of_them(
    ranks: int, steps: int
) -> None:
    def own(rank: int, step: int, random: np.random.Generator) -> float:
        once = 3.0 if rank == 1 and step == STEPS - 2 else 1.0
        return 20 * steady(rank, step, random) * once * (1.4 if begun(step, rank, steps) else 1)

    (late,) = [one for one in diagnose_windows(job(own, ranks)).findings if one.rank == 2]
    assert (late.cause, late.confidence) == ("straggler", "high")


@pytest.mark.parametrize(
    ("step_s", "late_before", "steps"),
    [(2.0, 3, 4), (2.0, 0, 2), (0.1, 0, 12)],
    ids=["often late before", "two steps", "a second of fast steps"],
)
def test_a_few_late_steps_that_may_be_chance_name_nobody(
    step_s: float, late_before: int, steps: int
) -> None:
    def own(rank: int, step: int, random: np.random.Generator) -> float:
        is_one_of_many = late_before and rank == 2 and step % late_before == 0
        is_late = begun(step, rank, steps) or is_one_of_many
        return 10 * step_s * steady(rank, step, random) * (1.4 if is_late else 1)

    assert "straggler" not in causes(diagnose_windows(job(own)))


@pytest.mark.parametrize("noisy", [2, 3], ids=["itself", "another"])
def test_three_late_steps_name_nobody_where_ranks_are_now_and_then_late(noisy: int) -> None:
    """Of one that is never late the steps of all count, those of another that is among them."""

    def own(rank: int, step: int, random: np.random.Generator) -> float:
        is_late = begun(step, rank, 3) or (rank == noisy and step in (5, 17))
        return 20 * steady(rank, step, random) * (1.4 if is_late else 1)

    assert "straggler" not in causes(diagnose_windows(job(own, 8)))


def test_a_rank_whose_pace_goes_up_and_down_for_long_is_not_named_at_its_slowest() -> None:
    def own(rank: int, step: int, random: np.random.Generator) -> float:
        wave = 0.14 * np.sin(np.pi * (step / STEPS - 0.5)) if rank == 2 else 0.0
        return 20 * steady(rank, step, random) * float(1 + wave)

    assert "straggler" not in causes(diagnose_windows(job(own)))
