from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pilotlight.agent.governor import (
    MOST_SQUEEZE,
    PACES,
    Governor,
    Usage,
    is_urgent,
    poll_interval_ns,
)

SECOND = 1_000_000_000
MB = 1 << 20


class Clock:
    """Feeds a governor second by second."""

    def __init__(self) -> None:
        self.time_ns = 0
        self.cpu_ns = 0
        self.governor = Governor(0.02, 128 * MB, Usage(0, 0, 0, 0))

    def run(self, seconds: int, cpu_ratio: float, own_bytes: int = MB) -> Governor:
        for _ in range(seconds):
            self.time_ns += SECOND
            self.cpu_ns += int(cpu_ratio * SECOND)
            self.governor.observe(Usage(self.time_ns, self.cpu_ns, own_bytes, own_bytes))
        return self.governor


def test_within_its_ceilings_the_governor_does_nothing() -> None:
    governor = Clock().run(60, 0.019)
    assert governor.level == 0 and not governor.actions


def test_over_the_cpu_ceiling_it_polls_less_first_and_samples_less_then() -> None:
    clock = Clock()
    periods = [clock.run(1, 0.5).pace.period_factor for _ in range(60)]
    assert periods == sorted(periods) and periods[5] == 1 and periods[-1] > 1
    actions = clock.governor.actions
    assert actions["poll_slower"] + actions["period_slower"] == len(PACES) - 1
    assert clock.governor.pace == PACES[-1]


def test_when_it_is_calm_again_everything_goes_back() -> None:
    clock = Clock()
    clock.run(60, 0.5)
    governor = clock.run(200, 0.001)
    assert governor.level == 0
    assert governor.actions["poll_faster"] + governor.actions["period_faster"] == len(PACES) - 1


def test_between_calm_and_too_much_the_pace_stays() -> None:
    clock = Clock()
    clock.run(8, 0.05)
    level = clock.run(15, 0.015).level
    assert clock.run(100, 0.015).level == level > 0


def test_one_expensive_second_is_averaged_over_ten() -> None:
    clock = Clock()
    clock.run(20, 0.001)
    clock.run(1, 0.1)
    assert clock.run(5, 0.001).level == 0


def test_over_the_memory_ceiling_queues_shrink_and_grow_back() -> None:
    clock = Clock()
    assert clock.run(20, 0.001, 200 * MB).squeeze == MOST_SQUEEZE
    governor = clock.run(100, 0.001, 50 * MB)
    assert governor.squeeze == 0
    assert governor.actions["queues_smaller"] == governor.actions["queues_larger"] == MOST_SQUEEZE


def test_memory_that_has_grown_is_released_once_for_each_growth() -> None:
    governor = Clock().governor
    asked = [governor.wants_release(Usage(0, 0, 0, size * MB)) for size in (10, 20, 30, 12, 25, 40)]
    assert asked == [False, True, False, False, False, True]
    assert governor.actions["memory_released"] == 2


def test_every_pace_is_slower_than_the_one_before() -> None:
    for before, after in itertools.pairwise(PACES):
        assert after != before
        assert after.poll_busy_ns >= before.poll_busy_ns
        assert after.poll_idle_ns >= before.poll_idle_ns
        assert after.commit_ns >= before.commit_ns
        assert after.period_factor >= before.period_factor


@given(st.floats(-1, 1), st.integers(0, 10**12), st.sampled_from(PACES))
def test_a_poll_is_never_sooner_or_later_than_the_pace_allows(
    growth_ratio: float, elapsed_ns: int, pace: object
) -> None:
    for one in PACES:
        if one == pace:
            wait_ns = poll_interval_ns(growth_ratio, elapsed_ns, one)
            assert one.poll_busy_ns <= wait_ns <= one.poll_idle_ns


def test_a_ring_that_fills_faster_is_looked_at_sooner() -> None:
    waits = [poll_interval_ns(growth, SECOND // 10, PACES[0]) for growth in (0.01, 0.1, 0.4, 1.0)]
    assert waits == sorted(waits, reverse=True) and waits[0] > waits[-1]


def test_a_new_process_is_looked_at_often_and_a_quiet_one_less_and_less() -> None:
    waits_ns = [0]
    for _ in range(8):
        waits_ns.append(poll_interval_ns(0.0, waits_ns[-1], PACES[0]))
    assert [wait // 1_000_000 for wait in waits_ns[1:]] == [10, 20, 40, 80, 160, 250, 250, 250]


@pytest.mark.parametrize(
    ("fill_ratio", "growth_ratio", "elapsed_ns", "urgent"),
    [
        (0.25, 0.25, SECOND // 100, False),
        (0.40, 0.15, SECOND // 100, True),
        (0.40, 0.15, SECOND, False),
        (0.60, 0.25, SECOND, True),
        (0.90, 0.00, SECOND, True),
    ],
    ids=["half at most", "full in 30 ms", "full in 3 s", "little room", "little room, at rest"],
)
def test_a_ring_is_committed_at_once_where_room_or_time_is_short(
    fill_ratio: float, growth_ratio: float, elapsed_ns: int, urgent: bool
) -> None:
    assert is_urgent(fill_ratio, growth_ratio, elapsed_ns) is urgent
