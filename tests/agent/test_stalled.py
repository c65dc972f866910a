"""A rank that makes no step is asked where it waits, ever more seldom."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import pytest

from pilotlight.agent.errands import Answer
from pilotlight.agent.stalled import Quiet, Waits, waits_of

SECOND_NS = 1_000_000_000
ANSWER = {"groups": {"0 default_pg": {"entered": 7, "finished": 6, "operation": "all_reduce"}}}


class Probe:
    """Answers when it is told to."""

    def __init__(self) -> None:
        self.asked: list[Callable[[Answer], None]] = []

    def ask(
        self,
        pid: int,
        errand: Mapping[str, object],
        timeout_ns: int,
        answered: Callable[[Answer], None],
    ) -> None:
        assert (pid, errand) == (4711, {"do": "collectives"})
        self.asked.append(answered)


def test_a_quiet_process_is_asked_after_ten_seconds_and_then_ever_more_seldom() -> None:
    probe, quiet = Probe(), Quiet(4711)
    asked_s = []
    for second in range(100, 200):
        before = len(probe.asked)
        quiet.look(100 * SECOND_NS, second * SECOND_NS, probe.ask)
        asked_s += [second - 100] * (len(probe.asked) - before)
    assert asked_s == [10, 20, 40, 80]


def test_a_process_that_has_not_made_a_step_yet_is_not_asked() -> None:
    probe = Probe()
    Quiet(4711).look(0, 1000 * SECOND_NS, probe.ask)
    assert probe.asked == []


def test_what_it_said_holds_until_the_next_step() -> None:
    probe, quiet = Probe(), Quiet(4711)
    quiet.look(SECOND_NS, 12 * SECOND_NS, probe.ask)
    probe.asked[0](ANSWER)
    assert quiet.waits.entered == {"0 default_pg": 7}
    assert quiet.waits.operations == {"0 default_pg": "all_reduce"}
    quiet.look(13 * SECOND_NS, 14 * SECOND_NS, probe.ask)
    assert quiet.waits == Waits()
    probe.asked[0](ANSWER)
    assert quiet.waits == Waits()


@pytest.mark.parametrize(
    "answer",
    [
        {"error": "its GIL is held"},
        {"groups": []},
        {"groups": {"a": 3}},
        {"groups": {"a": {"entered": True, "finished": 1}}},
        {"groups": {"a": {"entered": 1 << 70, "finished": -1}}},
    ],
)
def test_an_answer_of_the_wrong_kind_says_nothing(answer: Answer) -> None:
    assert waits_of(answer) == Waits()
