"""Whom to ask and from which step on."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pilotlight.capture.plan import (
    LAUNCHER,
    MAIN,
    MOST_CALLS,
    RANK,
    WORKER,
    Candidate,
    Progress,
    calls_of,
    choose,
    first_step,
    missing_ranks,
    ready_ns,
    roles_of,
    step_times,
    with_facts,
)

S = 1_000_000_000


def rank(pid: int, number: int, *ancestors: int) -> Candidate:
    return Candidate(pid, number, 2, RANK, ancestors)


JOB = (
    Candidate(10, None, None, MAIN, (1,)),
    rank(20, 0, 10, 1),
    rank(21, 1, 10, 1),
    Candidate(30, None, None, WORKER, (20, 10, 1)),
)


def test_launchers_and_workers_are_told_from_ranks() -> None:
    assert roles_of(JOB) == {10: LAUNCHER, 20: RANK, 21: RANK, 30: WORKER}


def test_the_helpers_of_a_rank_are_no_ranks_though_they_inherit_its_number() -> None:
    job = (*JOB, rank(40, 0, 20, 10, 1))
    assert roles_of(job)[40] == WORKER
    assert roles_of(job)[20] == RANK


def test_only_ranks_are_asked_where_there_are_any() -> None:
    assert [c.candidate.pid for c in choose(JOB, ()) if c.reason is None] == [20, 21]
    assert all(c.reason for c in choose(JOB, ()) if c.role != RANK)


def test_ranks_that_nobody_asked_for_are_left_out_with_the_reason() -> None:
    chosen = {c.candidate.pid: c.reason for c in choose(JOB, (1,))}
    assert chosen[21] is None
    assert chosen[20] == "not asked for"


def test_a_single_process_is_asked_and_its_workers_are_not() -> None:
    job = (Candidate(10, None, None, MAIN), Candidate(11, None, None, MAIN, (10, 1)))
    assert [(c.role, c.reason is None) for c in choose(job, ())] == [(MAIN, True), (WORKER, False)]


def test_a_process_that_learned_its_rank_later_is_a_rank() -> None:
    child = Candidate(30, None, None, WORKER, (10,))
    assert with_facts(child, {"rank": 3, "world_size": 4}).said_role == RANK
    for nonsense in (
        {},
        {"rank": 3},
        {"rank": -1, "world_size": 4},
        {"rank": "3", "world_size": 4},
    ):
        assert with_facts(child, nonsense) == child


def test_ranks_that_are_not_here_are_missing() -> None:
    assert missing_ranks(JOB, (0, 1, 7)) == [7]


def test_the_first_step_is_one_that_nobody_has_begun_when_all_have_polled() -> None:
    progress = Progress(0, 100, 2 * S, 200)
    step_ns = progress.step_ns()
    assert step_ns == 2 * S // 100
    first = first_step([(progress, step_ns), (progress, step_ns)], 7 * S)
    # 250 as fast as was seen, a quarter more in case they get faster.
    assert first == 200 + 313 + 2


@given(
    st.lists(
        st.tuples(st.integers(0, 10**6), st.integers(10_000, 10**10)), min_size=1, max_size=64
    ),
    st.integers(0, 20 * S),
)
def test_no_rank_gets_its_request_after_its_first_step(
    ranks: list[tuple[int, int]], wait_ns: int
) -> None:
    progress = [(Progress(0, steps, S, steps), step_ns) for steps, step_ns in ranks]
    first = first_step(progress, S + wait_ns)
    for steps, step_ns in ranks:
        # Its step number when the last one polls, and one more to warm up in.
        assert first > steps + math.floor(wait_ns / step_ns) + 1


def test_a_process_that_did_no_step_is_as_fast_as_the_others_or_as_its_probe_says() -> None:
    assert Progress(0, 5, 2 * S, 5).step_ns() is None
    assert Progress(7, 5, 7, 9).step_ns() is None
    assert step_times([None, S], [30 * S, None], 2 * S) == [S, S]
    assert step_times([None, None], [30 * S, None], 2 * S) == [30 * S, 2 * S]


def test_a_step_with_several_optimizers_takes_as_many_of_kinetos() -> None:
    assert calls_of(3, [(500, 500), (499, 501)]) == 3
    # Four calls a step: three steps are whole wherever in a step the trace begins.
    assert calls_of(3, [(2000, 500), (2003, 500)]) == 15
    # A process that has no probe, or has told no step yet; very many optimizers.
    assert calls_of(3, [(40, 0)]) == 3
    assert calls_of(1000, [(600_000, 1000)]) == MOST_CALLS


def test_a_step_number_fits_into_what_kineto_reads() -> None:
    assert first_step([(Progress(0, 5, 0, 5), 1)], 10 * S) < 1 << 31


@pytest.mark.parametrize(
    ("polled_s", "expected_s"), [(9, 14), (5.5, 10.5), (4, 15)], ids=["fresh", "due soon", "late"]
)
def test_all_are_ready_when_the_last_has_polled_again(polled_s: float, expected_s: float) -> None:
    assert ready_ns([(int(polled_s * S), 5 * S)], 10 * S, 0) == expected_s * S


def test_a_period_nobody_believes_is_bounded() -> None:
    assert ready_ns([(10 * S, 500 * S), (10 * S, 1)], 10 * S, 0) == 20 * S
    assert ready_ns([], 10 * S, S) == 11 * S
