"""One first step for several nodes."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pilotlight.capture.agree import Proposal, RankSteps, are_equal, decide
from pilotlight.capture.plan import LAST_STEP
from pilotlight.errors import FormatError

S = 1_000_000_000
PROPOSALS = st.builds(
    Proposal,
    st.integers(0, 10**6),
    st.integers(10**6, 10**11),
    st.integers(0, 12 * S),
)


@given(st.lists(st.tuples(PROPOSALS, st.integers(0, 15 * S)), min_size=1, max_size=8))
def test_no_node_has_begun_the_agreed_step_when_the_slowest_one_knows_of_it(
    proposals: list[tuple[Proposal, int]],
) -> None:
    now_ns = 15 * S
    decision = decide(proposals, now_ns)
    assert decision.first_step is not None
    for proposal, at_ns in proposals:
        assert proposal.steps is not None
        known_ns = now_ns + max(one.needs_ns for one, _ in proposals)
        assert decision.first_step > proposal.steps + (known_ns - at_ns) / proposal.step_ns


def test_where_one_node_counts_no_steps_all_begin_at_one_time() -> None:
    counting, other = Proposal(7, S, 2 * S), Proposal(None, S, 6 * S)
    decision = decide([(counting, 0), (other, 0)], 0)
    assert decision.first_step is None
    assert decision.in_ns >= 6 * S


def test_a_step_stays_within_kinetos_numbers() -> None:
    assert decide([(Proposal(LAST_STEP, 1, 60 * S), 0)], 0).first_step == LAST_STEP


@pytest.mark.parametrize(
    "content",
    [
        {"steps": -1, "step_ns": 1, "needs_ns": 0},
        {"steps": 1, "step_ns": 0, "needs_ns": 0},
        {"steps": 1, "step_ns": 1, "needs_ns": -1},
        {"steps": 1 << 40, "step_ns": 1, "needs_ns": 0},
        {"steps": 1, "needs_ns": 0},
    ],
)
def test_a_proposal_that_cannot_be_is_refused(content: dict[str, object]) -> None:
    with pytest.raises(FormatError):
        Proposal.from_json(content)


def rank(number: int, first: int, start_ns: int) -> RankSteps:
    return RankSteps(number, first, first + 2, start_ns, 40_000_000)


def test_steps_are_equal_by_number_and_by_the_collectors_clock() -> None:
    # The second node's clock is an hour ahead.
    here, there = [rank(0, 5, 0)], [rank(1, 5, 3600 * S)]
    assert are_equal([(here, 0, 0), (there, -3600 * S, 1000)]) is True
    assert are_equal([(here, 0, 0), (there, 0, 1000)]) is False
    assert are_equal([(here, 0, 0), ([rank(1, 6, 0)], 0, 0)]) is False


def test_steps_of_a_node_without_any_are_not_known() -> None:
    assert are_equal([([rank(0, 5, 0)], 0, 0), ([], 0, 0)]) is None
    assert are_equal([]) is None
